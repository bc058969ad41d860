"""Runs on fakes: what is measured is what was generated, in the order of the schedule, and differences are looked into last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.bench.energy import Energy
from specdec_cli.bench.measure import Bench, Engine, Interrupted, Work, different, generated, replayed
from specdec_cli.bench.results import PLAIN, Cause, Difference, Results, tokens_sha256
from specdec_cli.decoding.contracts import Ended, FinishReason, PromptPass, SamplingParams
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event, generate
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.verification import Rule
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.pricing import Ledger
from specdec_cli.session import Request, Session
from tests.bench import made
from tests.fakes.drafters import Oracle
from tests.fakes.runs import job
from tests.fakes.target import Table, TableTarget, hashed

N = 12


@dataclass
class Journal:
    """What happened to the engines, in order."""

    lines: list[str] = field(default_factory=list)


@dataclass
class FakeEngine:
    """A session over a fake target, which notes what is asked of it. differs_from: so many runs write one text."""

    name: str
    journal: Journal
    drafts: bool = False
    differs_from: int = 1000
    ends: FinishReason | None = None
    n_runs: int = 0
    ledger: Ledger | None = None

    def forget(self) -> None:
        self.journal.lines.append(f"{self.name} forgets")

    def generate(self, request: Request, /) -> Iterator[Event]:
        self.journal.lines.append(f"{self.name} writes {request.n_predict}")
        seed = 1 if self.n_runs >= self.differs_from else 0
        self.n_runs += 1
        if self.ends is not None and self.n_runs > 1:
            yield PromptPass(1, 2, 0, 0.1)
            yield Ended(self.ends, "")
            return
        table = hashed(6, seed)
        written = self._written(request, table)
        drafter = Oracle([*request.prompt, *written], 6) if self.drafts else None
        yield from generate(
            Generation(job(request.prompt, request.n_predict)),
            TableTarget(table),
            drafter,
            FixedGovernor(3 if self.drafts else 0),
        )

    def _written(self, request: Request, table: Table) -> tuple[int, ...]:
        """What plain decoding writes."""
        tokens = list(request.prompt)
        for _ in range(request.n_predict):
            tokens.append(int(np.argmax(table(tuple(tokens)))))
        return tuple(tokens[len(request.prompt) :])

    def close(self) -> None:
        self.journal.lines.append(f"{self.name} closes")


class Deaf:
    def notice(self, sentence: str, /) -> None: ...

    def progress(self, label: str, fraction: float | None, /) -> None: ...


@dataclass
class Joules:
    """A meter that counts one joule a reading."""

    total: float = 0.0

    def read(self) -> float:
        self.total += 1
        return self.total

    def close(self) -> None:
        self.total = -1


def explained(
    _engine: Engine, _request: Request, index: int, _reference: Sequence[int]
) -> tuple[int, Cause, float | None, float | None]:
    return index, Cause.ROUNDING, 0.25, 0.5


def _same(engine: FakeEngine) -> FakeEngine:
    return engine


def _bench(
    engines: dict[str, FakeEngine], *, together: bool = True, repeats: int = 2, tasks: str = "ab"
) -> tuple[Bench, Results]:
    requests = {task: Request((1, 2, 3), SamplingParams(temperature=0), N, ignore_eos=True) for task in tasks}
    work = Work(requests, {name: partial(_same, engine) for name, engine in engines.items()}, repeats, together)
    fresh = replace(made.results({task: ([], []) for task in tasks}), variants=tuple(engines), runs=(), summaries=())
    return Bench(work, Energy([Joules()]), Deaf(), explained), fresh


def _engines(**changes: object) -> tuple[dict[str, FakeEngine], Journal]:
    journal = Journal()
    return {PLAIN: FakeEngine(PLAIN, journal), "ngram": FakeEngine("ngram", journal, drafts=True, **changes)}, journal  # type: ignore[arg-type]


def _run(bench: Bench, fresh: Results) -> Results:
    with bench:
        return list(bench.run(fresh))[-1]


def test_runs_hold_what_was_generated() -> None:
    found = _run(*_bench(_engines()[0]))
    assert len(found.runs) == 8
    plain, drafted = found.of(PLAIN, "a")[0], found.of("ngram", "a")[0]
    assert plain.tokens == drafted.tokens
    assert plain.tokens_sha256 == drafted.tokens_sha256 == tokens_sha256(plain.tokens)
    assert (plain.n_tokens, plain.rounds, plain.drafted, plain.finish) == (N, N, 0, "length")
    assert len(plain.itl_s) == N - 1
    assert drafted.rounds is not None
    assert drafted.rounds < N
    assert sum(n for _, n in drafted.itl_s) < N  # the first burst is no wait
    assert drafted.accepted == drafted.drafted
    assert plain.energy_j == 1.0
    assert found.differences == ()
    assert plain.lengths == (N,)
    assert (plain.verified_at, plain.accepted_at) == ((), ())
    assert sum(drafted.lengths) == drafted.rounds
    assert sum(k * n for k, n in enumerate(drafted.lengths)) == drafted.drafted
    assert sum(drafted.accepted_at) == drafted.accepted
    assert drafted.verified_at == drafted.accepted_at  # an oracle is never refused
    assert found.curves == {}  # nothing governs these engines


def test_every_run_forgets_what_was_before_and_the_warm_up_is_dropped() -> None:
    engines, journal = _engines()
    _run(*_bench(engines, repeats=1, tasks="a"))
    assert journal.lines == [
        "plain forgets", "plain writes 12", "plain forgets", "plain writes 12",
        "ngram forgets", "ngram writes 12", "ngram forgets", "ngram writes 12",
        "ngram closes", "plain closes",
    ]  # fmt: skip


def test_results_come_after_each_run() -> None:
    bench, fresh = _bench(_engines()[0])
    with bench:
        assert [len(found.runs) for found in bench.run(fresh)] == list(range(1, 9))


def test_only_what_is_missing_is_measured() -> None:
    found = _run(*_bench(_engines()[0]))
    some = replace(found, runs=found.runs[:3])
    bench, _ = _bench(_engines()[0])
    again = _run(bench, some)
    assert again.runs[:3] == some.runs
    assert [run.key for run in again.runs] == [run.key for run in found.runs]


def test_variants_that_do_not_fit_together_are_never_open_together() -> None:
    engines, journal = _engines()
    _run(*_bench(engines, together=False, repeats=2, tasks="ab"))
    is_open: set[str] = set()
    for line in journal.lines:
        name, what = line.split()[:2]
        (is_open.discard if what == "closes" else is_open.add)(name)
        assert len(is_open) < 2
    assert not is_open
    assert sum("closes" in line for line in journal.lines) == 3  # plain, ngram for two turns, plain


def test_a_text_that_differs_is_looked_into_after_all_runs() -> None:
    engines, _ = _engines(differs_from=2)  # the warm-up and the first run are like plain decoding
    found = _run(*_bench(engines, tasks="a"))
    assert len(found.runs) == 4
    assert [replace(each, index=0) for each in found.differences] == [Difference("a", "ngram", 0, Cause.ROUNDING, 0.25, 0.5)]
    assert different(found) == []
    assert [run.repeat for run in different(replace(found, differences=()))] == [1]


def test_an_interrupted_run_is_dropped_and_ends_everything() -> None:
    engines, journal = _engines(ends=FinishReason.INTERRUPTED)
    bench, fresh = _bench(engines)
    with bench:
        runs = bench.run(fresh)
        assert len(next(runs).runs) == 1
        with pytest.raises(Interrupted):
            next(runs)
    assert journal.lines[-2:] == ["ngram closes", "plain closes"]


@pytest.mark.model
def test_why_a_text_differs_is_found_by_passing_the_run_again(smollm2: Path) -> None:
    context = ContextOptions(n_ctx=256, n_threads=1)
    options = SessionOptions(ModelOptions(smollm2), context, ("ngram",), governed=False, n_max=4)
    with Session(options, Deaf(), Interrupt()) as session:
        prompt = session.encode("one two three one two three one two", None, raw=True)
        request = Request(prompt, SamplingParams(temperature=0), 12, ignore_eos=True)
        tokens = generated(session, request).tokens
        reference = (*tokens[:5], tokens[5] + 1, *tokens[6:])
        index, cause, gap, noise = replayed(session, request, 9, reference)
        assert (index, cause) == (5, Cause.ROUNDING)  # where this run differs, not where an earlier one did
        assert gap is not None
        assert gap > 0
        assert noise is not None


@pytest.mark.model
def test_a_rule_that_draws_anew_is_no_fault(smollm2: Path) -> None:
    options = SessionOptions(
        ModelOptions(smollm2), ContextOptions(n_ctx=256, n_threads=1), ("ngram",), rule=Rule.REJECT, n_max=2
    )
    with Session(options, Deaf(), Interrupt()) as session:
        request = Request(session.encode("one two", None, raw=True), SamplingParams(temperature=1.0), 4)
        assert replayed(session, request, 2, (1, 2, 3, 4)) == (2, Cause.SAMPLING, None, None)
