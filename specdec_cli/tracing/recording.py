"""Watches a session's run, and writes its rounds to a trace: the one seam for whoever generates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import psutil

from specdec_cli.bench.results import tokens_sha256
from specdec_cli.decoding.contracts import Kind, PassResult, Round, Target
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.sampling import Row
from specdec_cli.decoding.stats import RunStats
from specdec_cli.decoding.verification import Rule
from specdec_cli.session import Request, Session
from specdec_cli.tracing.form import Cached, Chosen, Drafted, EndLine, RoundLine, RunLine
from specdec_cli.tracing.writing import TraceFile

Shown = Callable[[int], tuple[bytes, str]]  # a token -> its bytes (none: it is special), and how a person spells it

_EVERY_S = 0.1  # between two looks at the memory, at the least


@dataclass(frozen=True, slots=True)
class Name:
    """Which run of a benchmark it is."""

    task: str | None = None
    variant: str | None = None
    repeat: int | None = None


def traced(trace: TraceFile | None, session: Session, request: Request, name: Name | None = None) -> Iterator[Event]:
    """session.generate(request), with its rounds in the trace, if there is one."""
    if trace is None:
        yield from session.generate(request)
        return
    name = name or Name()
    vocabulary, drafts = session.model.vocabulary, session.contexts[1:]
    target = Watched(session.target)
    recorder = Recorder(
        trace,
        target,
        lambda token: (vocabulary.piece(token), vocabulary.spelling(token)),
        lambda: drafts[0].n_cached if drafts else None,
        session.options.rule,
    )
    trace.write(
        RunLine(
            run=recorder.run,
            n_prompt=len(request.prompt),
            prompt_sha256=tokens_sha256(request.prompt),
            drafter=session.drafter_name,
            rule=session.options.rule.value,
            temperature=request.params.temperature,
            seed=request.params.seed,
            task=name.task,
            variant=name.variant,
            repeat=name.repeat,
        )
    )
    try:
        for event in session.generate(request, target=target):
            recorder.add(event)
            yield event
    finally:
        recorder.end()


class Watched:
    """A target whose last pass can still be looked at: rows is a view that the next pass overwrites."""

    def __init__(self, inner: Target) -> None:
        self._inner = inner
        self.n_ctx, self.n_vocab = inner.n_ctx, inner.n_vocab
        self.rows = np.empty((0, 0), dtype=np.float32)

    @property
    def max_pass(self) -> int:
        return self._inner.max_pass

    @property
    def max_piece(self) -> int:
        return self._inner.max_piece

    @property
    def n_cached(self) -> int:
        return self._inner.n_cached

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        result = self._inner.decode(tokens, last_only=last_only)
        self.rows = result.rows
        return result

    def feed(self, tokens: Sequence[int]) -> float:
        return self._inner.feed(tokens)

    def keep(self, n: int) -> None:
        self._inner.keep(n)


class Recorder:
    """Turns the events of one run into lines."""

    def __init__(
        self, trace: TraceFile, target: Watched, shown: Shown, n_draft_cached: Callable[[], int | None], rule: Rule
    ) -> None:
        self.run = trace.n_runs
        self._trace, self._target, self._shown = trace, target, shown
        self._n_draft_cached, self._rule = n_draft_cached, rule
        self._texts: dict[int, tuple[str, bool]] = {}
        self._process = psutil.Process()
        self._rss, self._asked_s = 0, -math.inf
        self._scratch: Row = np.empty(0, dtype=np.float32)
        self._stats = RunStats()

    def add(self, event: Event) -> None:
        """Take an event before the next pass."""
        self._stats.add(event)
        if isinstance(event, Round):
            self._trace.write(self._line(event))

    def end(self) -> None:
        """The run is over."""
        stats = self._stats
        self._trace.write(
            EndLine(
                run=self.run,
                finish=stats.finish,
                rounds=stats.n_rounds,
                emitted=stats.n_emitted,
                drafted=stats.n_drafted,
                accepted=stats.n_accepted,
                prompt_s=stats.prompt_s,
                draft_s=stats.draft_s,
                pass_s=stats.pass_s,
                host_s=stats.host_s,
                generation_tps=stats.generation_tps,
            )
        )

    def _line(self, done: Round) -> RoundLine:
        deciding = self._target.rows[done.n_accepted]
        top = int(deciding.argmax())
        best = float(deciding[top])
        second = max(float(part.max(initial=-np.inf)) for part in (deciding[:top], deciding[top + 1 :]))
        mass = self._mass(deciding, best) if done.n_drafted else None  # the dearest figure, for what a draft is compared with

        def softmax(token: int) -> float | None:
            return math.exp(float(deciding[token]) - best) / mass if mass is not None else None

        refused = done.kind is Kind.RECOVERED
        return RoundLine(
            run=self.run,
            index=done.index,
            position=done.position,
            drafter=done.proposal.drafter if done.n_drafted else None,
            asked=done.plan.n_max if done.plan is not None else 0,
            why=done.plan.why if done.plan is not None else None,
            drafted=tuple(self._drafted(done, i, softmax) for i in range(done.n_drafted)),
            accepted=done.n_accepted,
            kind=done.kind,
            chosen=self._chosen(done, deciding, softmax),
            gap=best - second if math.isfinite(second) else None,
            residual=_residual(done) if refused and self._rule is Rule.REJECT else None,
            invalid=done.n_invalid,
            emitted=done.emitted,
            text=done.text,
            width=done.width,
            draft_s=done.draft_s,
            pass_s=done.pass_s,
            host_s=done.host_s,
            at_s=done.at_s - self._stats.started_s,
            cache=Cached(self._target.n_cached, self._n_draft_cached()),
            rss=self._resident(done.at_s),
        )

    def _drafted(self, done: Round, i: int, softmax: Callable[[int], float | None]) -> Drafted:
        proposal, token = done.proposal, done.proposal.tokens[i]
        known = 0 <= token < self._target.n_vocab
        judged = i <= done.n_accepted
        text, special = self._text(token) if known else ("", False)
        return Drafted(
            id=token,
            text=text,
            q=1.0 if proposal.q[i] is None else proposal.prob[i],
            peak=proposal.peak[i],
            p=done.p[i] if judged else None,
            rank=_rank(self._target.rows[i], token) if judged and known else None,
            softmax=softmax(token) if i == done.n_accepted and known else None,
            special=special,
        )

    def _resident(self, now_s: float) -> int:
        """The size of the process, asked for now and then: it changes slowly, and the answer takes a while."""
        if now_s - self._asked_s >= _EVERY_S:
            self._rss, self._asked_s = self._process.memory_info().rss, now_s
        return self._rss

    def _mass(self, row: Row, best: float) -> float:
        """sum(exp(row - best)), in an array that is kept, for a new one of that size costs as much as the sum."""
        if self._scratch.size != row.size:
            self._scratch = np.empty_like(row)
        np.subtract(row, np.float32(best), out=self._scratch)
        np.exp(self._scratch, out=self._scratch)
        return float(self._scratch.sum(dtype=np.float64))

    def _chosen(self, done: Round, row: Row, softmax: Callable[[int], float | None]) -> Chosen | None:
        """The token that the target added; None where the round was cut before it."""
        if len(done.emitted) != done.n_accepted + 1:
            return None
        token = done.emitted[-1]
        text, special = self._text(token)
        p = done.law.prob(token) if done.law is not None else math.nan
        return Chosen(token, text, p, _rank(row, token), softmax(token), special)

    def _text(self, token: int) -> tuple[str, bool]:
        """A token's text, bytes of a half character spelled out, and whether it is special."""
        found = self._texts.get(token)
        if found is None:
            piece, spelling = self._shown(token)
            found = self._texts[token] = (piece.decode("utf-8", "backslashreplace") or spelling, not piece)
        return found


def _rank(row: Row, token: int) -> int:
    return int(np.count_nonzero(row > row[token])) + 1


def _residual(done: Round) -> float:
    """sum max(p - q, 0) at the refused place."""
    p, q, x = done.law, done.proposal.q[done.n_accepted], done.proposal.tokens[done.n_accepted]
    if p is None:
        return math.nan
    if q is None:
        return 1.0 - p.prob(x)
    there = dict(zip(q.ids.tolist(), q.probs.tolist(), strict=True))
    pairs = zip(p.ids.tolist(), p.probs.tolist(), strict=True)
    return float(sum(max(prob - there.get(token, 0.0), 0.0) for token, prob in pairs))
