"""Makes the runs of a schedule, one after the other, and says where texts differ from plain decoding's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

from specdec_cli.bench.energy import Energy
from specdec_cli.bench.machine import peak_memory
from specdec_cli.bench.results import Cause, Curve, Difference, Results, Run, text_sha256, tokens_sha256
from specdec_cli.bench.schedule import Slot, remaining, schedule
from specdec_cli.decoding.contracts import Ended, FinishReason, PromptPass, Round
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.replay import Recorder, explain, first_difference
from specdec_cli.decoding.stats import RunStats
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters import MODEL
from specdec_cli.options import Listener
from specdec_cli.pricing import Ledger
from specdec_cli.session import Request, Session

_N_WARM_UP = 16  # tokens
_ENDED = (FinishReason.INTERRUPTED, None)


class Generator(Protocol):
    """What writes."""

    def generate(self, request: Request, /) -> Iterator[Event]: ...


class Engine(Generator, Protocol):
    """What a session does, as far as it is measured."""

    @property
    def ledger(self) -> Ledger | None: ...

    def forget(self) -> None: ...

    def close(self) -> None: ...


class Interrupted(Exception):
    """The person asked for the end while a run was under way; what it had is dropped."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be measured."""

    requests: Mapping[str, Request]  # by the name of the task
    openers: Mapping[str, Callable[[], Engine]]  # by the name of the variant
    repeats: int
    together: bool = True  # all variants fit into memory at once
    traced: Callable[[Engine, Slot], Generator] | None = None  # makes a measured run in place of the engine, and tells of it


# engine, request, index of the first token that differs, the reference's tokens -> why
Explain = Callable[[Engine, Request, int, Sequence[int]], tuple[int, Cause, float | None, float | None]]


class Bench:
    """Sessions and the runs made with them. A context manager: on leaving, all sessions are closed."""

    def __init__(self, work: Work, energy: Energy, listener: Listener, explained: Explain) -> None:
        self._work = work
        self._energy = energy
        self._listener = listener
        self._explained = explained
        self._engines: dict[str, Engine] = {}

    def run(self, results: Results) -> Iterator[Results]:
        """The results with what is missing, again after each run and each difference. Raises Interrupted, PassAborted."""
        slots = remaining(
            schedule(list(self._work.requests), results.variants, self._work.repeats, together=self._work.together),
            results.done(),
        )
        started_s = monotonic()
        for i, slot in enumerate(slots):
            self._tell(slot, i, len(slots), started_s)
            run = self._measured(slot)
            results = results.with_run(run, _curve(self._engine(slot.variant), run))
            yield results
        for run in different(results):
            self._listener.progress(f"comparing the texts of {run.task}", None)
            results = _with_difference(results, self._difference(results, run))
            yield results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        while self._engines:
            self._engines.popitem()[1].close()

    def _tell(self, slot: Slot, i: int, n: int, started_s: float) -> None:
        left = ""
        if i > 0:
            minutes = (monotonic() - started_s) / i * (n - i) / 60
            left = f", {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"
        self._listener.progress(f"{slot.task}, {slot.variant}, run {i + 1} of {n}{left}:", i / n)

    def _engine(self, variant: str) -> Engine:
        """The session of a variant, loaded and warm."""
        if variant not in self._engines:
            if not self._work.together:
                while self._engines:
                    self._engines.popitem()[1].close()
            engine = self._engines[variant] = self._work.openers[variant]()
            first = next(iter(self._work.requests.values()))
            engine.forget()
            if generated(engine, replace(first, n_predict=min(first.n_predict, _N_WARM_UP))).stats.finish in _ENDED:
                raise Interrupted
        return self._engines[variant]

    def _measured(self, slot: Slot) -> Run:
        engine = self._engine(slot.variant)
        engine.forget()
        before_j = self._energy.read()
        traced = self._work.traced
        done = generated(traced(engine, slot) if traced is not None else engine, self._work.requests[slot.task])
        after_j = self._energy.read()
        if done.stats.finish in _ENDED:
            raise Interrupted
        stats = done.stats
        first_s, last_s = stats.first_s, stats.last_s
        return Run(
            task=slot.task,
            variant=slot.variant,
            repeat=slot.repeat,
            order=slot.order,
            n_prompt=len(self._work.requests[slot.task].prompt),
            n_tokens=stats.n_emitted,
            prompt_s=stats.prompt_s,
            ttft_s=stats.ttft_s,
            generation_s=last_s - first_s if first_s is not None and last_s is not None else None,
            generation_tps=stats.generation_tps,
            prompt_tps=stats.prompt_tps,
            itl_s=done.bursts,
            accepted=stats.n_accepted,
            drafted=stats.n_drafted,
            rounds=stats.n_rounds,
            drafters=dict(stats.drafters),
            draft_s=stats.draft_s,
            pass_s=stats.pass_s,
            host_s=stats.host_s,
            peak_bytes=peak_memory(),
            energy_j=after_j - before_j if before_j is not None and after_j is not None else None,
            tokens=done.tokens,
            tokens_sha256=tokens_sha256(done.tokens),
            text_sha256=text_sha256(done.text),
            finish=stats.finish.value if stats.finish is not None else None,
            verified_at=_counts(stats.n_verified_at),
            accepted_at=_counts(stats.n_accepted_at),
            lengths=_counts(done.lengths),
        )

    def _difference(self, results: Results, run: Run) -> Difference:
        reference = next(iter(results.of(results.reference, run.task))).tokens
        index = first_difference(reference, run.tokens) or 0
        found = self._explained(self._engine(run.variant), self._work.requests[run.task], index, reference)
        return Difference(run.task, run.variant, *found)


@dataclass(frozen=True, slots=True)
class Generated:
    """One generation, as it went."""

    stats: RunStats
    tokens: tuple[int, ...]
    bursts: tuple[tuple[float, int], ...]
    lengths: Counter[int]  # rounds that drafted so many tokens
    text: str


def generated(engine: Generator, request: Request) -> Generated:
    """Run a request to its end."""
    tokens: list[int] = []
    bursts: list[tuple[float, int]] = []
    lengths: Counter[int] = Counter()
    texts: list[str] = []
    stats = RunStats()
    for event in engine.generate(request):
        last_s = stats.last_s
        stats.add(event)
        if isinstance(event, Round):
            tokens.extend(event.emitted)
            lengths[event.n_drafted] += 1
            if last_s is not None:
                bursts.append((event.at_s - last_s, len(event.emitted)))
        if not isinstance(event, PromptPass):
            texts.append(event.text)
    return Generated(stats, tuple(tokens), tuple(bursts), lengths, "".join(texts))


def _counts(found: Counter[int]) -> tuple[int, ...]:
    """By 0, 1, 2, ..."""
    return tuple(found[i] for i in range(max(found, default=-1) + 1))


def _curve(engine: Engine, run: Run) -> Curve | None:
    """What the session that made a run knows of its costs; None of one that does not go by them."""
    ledger = engine.ledger
    if ledger is None:
        return None
    account = ledger.accounts.get(MODEL)
    step_s = account.step_s if account is not None else None
    return Curve(tuple(ledger.costs.known().items()), step_s, (run.n_prompt or 0) + run.n_tokens)


def different(results: Results) -> list[Run]:
    """Of each task and variant the runs whose text is not the reference's, each text once, unless it has been explained."""
    explained = {(each.task, each.variant) for each in results.differences}
    found: dict[tuple[str, str, str | None], Run] = {}
    for task in results.tasks:
        texts = {run.tokens_sha256 for run in results.of(results.reference, task.name)}
        for variant in results.drafted if texts else ():
            for run in results.of(variant, task.name):
                if run.tokens_sha256 not in texts and (task.name, variant) not in explained:
                    found.setdefault((task.name, variant, run.tokens_sha256), run)
    return list(found.values())


def _with_difference(results: Results, found: Difference) -> Results:
    """One difference is kept of a task and variant, a fault before anything else."""
    same = [each for each in results.differences if (each.task, each.variant) == (found.task, found.variant)]
    if same and (same[0].cause is Cause.FAULT or found.cause is not Cause.FAULT):
        return results
    return replace(results, differences=(*(each for each in results.differences if each not in same), found))


def replayed(
    engine: Engine, request: Request, index: int, reference: Sequence[int]
) -> tuple[int, Cause, float | None, float | None]:
    """Why a session's text differs: the run is made again under a recorder, and passed again with other refused tokens.

    A governor that goes by the clock may draft otherwise this time; then the place may be another one.
    """
    assert isinstance(engine, Session)
    if engine.options.rule is Rule.REJECT and not request.params.greedy:
        return index, Cause.SAMPLING, None, None
    recorder = Recorder(engine.target)
    engine.forget()
    events = list(engine.generate(request, target=recorder))
    if any(isinstance(event, Ended) and event.finish is FinishReason.INTERRUPTED for event in events):
        raise Interrupted
    rounds = [event for event in events if isinstance(event, Round)]
    tokens = [token for done in rounds for token in done.emitted]
    again = first_difference(reference, tokens)
    index = index if again is None else again
    found = explain(engine.target, engine.job(request), recorder, rounds, index)
    return index, Cause(found.cause.value), found.gap, found.noise
