"""A generation on fakes: the same run whatever it is read by, and caches that are fit for the next run however it is left."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import pytest

from specdec_cli.decoding.contracts import FinishReason, PassAborted, PassResult, PromptPass
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Job, generate
from specdec_cli.decoding.loop import Sequence as Run
from specdec_cli.errors import BackendError, UsageError
from specdec_cli.library.generation import Desk, Generation, Step
from specdec_cli.llama.interrupt import Interrupt
from tests.fakes.drafters import Scattered
from tests.fakes.runs import job, plain
from tests.fakes.target import TableTarget, hashed

TABLE = hashed(6)


class Stoppable(TableTarget):
    """A target that heeds an interrupt as a real one does, and lets a test act in the middle of a pass."""

    def __init__(self, interrupt: Interrupt, *, fail_at: int | None = None) -> None:
        super().__init__(TABLE, fail_at=fail_at, max_piece=2)
        self.act: Callable[[], None] = lambda: None
        self.act_in = -1  # the number of the pass
        self._interrupt = interrupt

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        if self._interrupt.requested:
            raise PassAborted
        if len(self.passes) == self.act_in:
            self.act()
        if self._interrupt.requested:
            raise PassAborted
        return super().decode(tokens, last_only=last_only)


class Bench:
    """A desk, a target with its cache, and generations on them."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.desk = Desk(Interrupt())
        self.target = Stoppable(self.desk.interrupt, fail_at=fail_at)
        self.run: Run | None = None

    def generation(self, asked: Job) -> Generation:
        return Generation(self._steps(asked), self.desk, seed=0)

    def _steps(self, asked: Job) -> Iterator[Step]:
        self.run = Run(asked)
        self.target.keep(0)
        for event in generate(self.run, self.target, Scattered(6), FixedGovernor(3)):
            yield Step(event, "" if isinstance(event, PromptPass) else event.text)

    def check_caches(self) -> None:
        """The cache holds what was committed, and the next run says what it should."""
        assert self.run is not None
        assert self.target.cached == self.run.context[: self.target.n_cached]
        asked = job(n_predict=9)
        assert self.generation(asked).read() == plain(asked, TABLE).text


@contextmanager
def handler(handle: Callable[[int, FrameType | None], object] | int) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_pieces_rounds_and_the_whole_are_the_same_run() -> None:
    asked = job(n_predict=24)
    expected = plain(asked, TABLE)
    pieces, rounds, whole = (Bench().generation(asked) for _ in range(3))
    assert "".join(pieces) == expected.text
    tokens = [token for done in rounds.rounds() for token in done.emitted]
    assert tuple(tokens) == expected.tokens
    assert whole.read() == expected.text
    for each in (pieces, rounds, whole):
        assert (each.tokens, each.text, each.finish) == expected.said
        assert each.stats.n_emitted == 24
        assert list(each) == []


def test_rounds_go_on_where_pieces_were_left() -> None:
    asked = job(n_predict=24)
    generation = Bench().generation(asked)
    first = next(generation)
    rest = "".join(done.text for done in generation.rounds())
    assert first + rest == plain(asked, TABLE).text


def test_no_piece_is_empty() -> None:
    asked = job(n_predict=24, stops=("ab", "cc"))
    generation = Bench().generation(asked)
    assert all(generation)
    assert (generation.tokens, generation.text, generation.finish) == plain(asked, TABLE).said


def test_one_that_is_left_by_break_ends_there() -> None:
    bench = Bench()
    for _ in bench.generation(job(n_predict=40)):
        break
    assert bench.desk.current is None
    assert 0 < bench.desk.stats.n_emitted < 40
    bench.check_caches()


def test_rounds_that_are_left_by_break_end_the_run() -> None:
    bench = Bench()
    for _ in bench.generation(job(n_predict=40)).rounds():
        break
    assert bench.desk.current is None
    bench.check_caches()


def test_one_that_is_closed_keeps_what_was_said() -> None:
    bench = Bench()
    generation = bench.generation(job(n_predict=40))
    said = next(generation)
    generation.close()
    generation.close()
    assert generation.finish is FinishReason.INTERRUPTED
    assert generation.text.startswith(said)
    assert list(generation) == []
    assert bench.desk.stats.n_generations == 1
    bench.check_caches()


def test_an_exception_of_the_caller_leaves_caches_usable() -> None:
    bench = Bench()

    def consume() -> None:
        for _ in bench.generation(job(n_predict=40)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()
    gc.collect()  # pytest holds the traceback, and with it the frame
    assert bench.desk.current is None
    bench.check_caches()


def test_another_one_waits_for_the_end_of_the_first() -> None:
    bench = Bench()
    first, second = bench.generation(job(n_predict=40)), bench.generation(job(n_predict=9))
    next(first)
    with pytest.raises(UsageError) as caught:
        next(second)
    assert "under way" in caught.value.what
    assert "close()" in caught.value.fix
    first.close()
    assert second.read() == plain(job(n_predict=9), TABLE).text


def test_one_that_never_began_is_in_nobodys_way() -> None:
    bench = Bench()
    idle = bench.generation(job())
    assert bench.generation(job(n_predict=9)).read()
    idle.close()
    assert (idle.text, idle.finish, list(idle)) == ("", None, [])
    assert bench.desk.stats.n_generations == 1


def test_an_error_of_the_run_is_raised_and_the_next_run_works() -> None:
    bench = Bench(fail_at=4)
    generation = bench.generation(job(n_predict=40))
    with pytest.raises(BackendError):
        generation.read()
    assert generation.tokens
    assert generation.finish is None
    bench.check_caches()


def test_totals_are_those_of_all_generations() -> None:
    bench = Bench()
    runs = [bench.generation(job(n_predict=n)) for n in (5, 9)]
    for each in runs:
        each.read()
    stats = bench.desk.stats
    assert stats.n_generations == 2
    for name in ("n_prompt", "n_emitted", "n_rounds", "n_drafted", "n_accepted", "pass_s", "host_s"):
        assert getattr(stats, name) == pytest.approx(sum(getattr(each.stats, name) for each in runs)), name
    assert stats.generation_tps is not None
    assert stats.acceptance_rate == stats.n_accepted / stats.n_drafted


def test_one_generations_totals_are_its_own() -> None:
    bench = Bench()
    only = bench.generation(job(n_predict=20))
    only.read()
    assert bench.desk.stats.generation_tps == pytest.approx(only.stats.generation_tps)
    assert bench.desk.stats.mean_acceptance_length == only.stats.mean_acceptance_length


def test_rates_of_nothing_are_none() -> None:
    stats = Desk(Interrupt()).stats
    assert (stats.generation_tps, stats.acceptance_rate, stats.mean_acceptance_length, stats.prompt_tps) == (None,) * 4


def test_a_closed_session_says_so() -> None:
    bench = Bench()
    generation = bench.generation(job(n_predict=40))
    next(generation)
    bench.desk.close()
    assert generation.finish is FinishReason.INTERRUPTED
    with pytest.raises(UsageError) as caught:
        next(bench.generation(job()))
    assert "closed" in caught.value.what


@pytest.mark.parametrize("where", [2, 3, 6])
def test_ctrl_c_in_a_pass_raises_in_the_callers_code(where: int) -> None:
    bench = Bench()
    bench.target.act, bench.target.act_in = lambda: signal.raise_signal(signal.SIGINT), where
    generation = bench.generation(job(n_predict=40))
    with handler(signal.default_int_handler):
        with pytest.raises(KeyboardInterrupt):
            generation.read()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert generation.finish is FinishReason.INTERRUPTED
    assert len(generation.tokens) < 40
    assert list(generation) == []
    bench.check_caches()


@pytest.mark.skipif(sys.platform == "win32", reason="pthread_kill")
def test_ctrl_c_reaches_a_pass_that_does_not_come_back_by_itself() -> None:
    """As in a native call: Python runs no handler until it returns, and it returns because the interrupt was requested."""
    bench = Bench()
    heard: list[bool] = []

    def native() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        deadline_s = time.monotonic() + 20
        while not bench.desk.interrupt.requested and time.monotonic() < deadline_s:
            time.sleep(0.001)
        heard.append(bench.desk.interrupt.requested)

    bench.target.act, bench.target.act_in = native, 3
    with handler(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        bench.generation(job(n_predict=40)).read()
    assert heard == [True]
    bench.check_caches()


def test_a_handler_of_the_programs_own_is_called_between_passes_and_the_run_goes_on() -> None:
    bench = Bench()
    seen: list[int] = []

    def note(_number: int, _frame: FrameType | None) -> None:
        assert bench.run is not None
        seen.append(bench.target.n_cached - (len(bench.run.context) - 1))

    bench.target.act, bench.target.act_in = lambda: signal.raise_signal(signal.SIGINT), 3
    asked = job(n_predict=24)
    with handler(note):
        assert bench.generation(asked).read() == plain(asked, TABLE).text
        assert signal.getsignal(signal.SIGINT) is note
    assert seen == [0]


def test_what_a_handler_of_the_programs_own_raises_ends_the_run() -> None:
    bench = Bench()

    def refuse(_number: int, _frame: FrameType | None) -> None:
        raise ZeroDivisionError

    bench.target.act, bench.target.act_in = lambda: signal.raise_signal(signal.SIGINT), 3
    generation = bench.generation(job(n_predict=40))
    with handler(refuse), pytest.raises(ZeroDivisionError):
        generation.read()
    assert generation.finish is FinishReason.INTERRUPTED
    bench.check_caches()


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    bench = Bench()
    bench.target.act, bench.target.act_in = lambda: signal.raise_signal(signal.SIGINT), 3
    asked = job(n_predict=24)
    with handler(signal.SIG_IGN):
        assert bench.generation(asked).read() == plain(asked, TABLE).text


def test_another_thread_can_generate() -> None:
    bench, said = Bench(), list[str]()
    asked = job(n_predict=24)
    thread = threading.Thread(target=lambda: said.append(bench.generation(asked).read()))
    thread.start()
    thread.join()
    assert said == [plain(asked, TABLE).text]


def test_no_thread_is_left_behind() -> None:
    bench, before = Bench(), threading.active_count()
    for _ in range(3):
        next(bench.generation(job(n_predict=40)))
        bench.generation(job(n_predict=3)).read()
    assert threading.active_count() == before
