"""Which of several ways to decode is fastest on this machine: successive halving by the clock, within a budget of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from specdec_cli.bench.results import PLAIN, Ratio, Spread
from specdec_cli.bench.schedule import schedule
from specdec_cli.bench.statistics import overall, spread
from specdec_cli.errors import SpecdecError

N_LEAST = 16  # tokens of the shortest run
_REST = 0.1  # of the budget: where more than this is left at the end, the finalists are measured once more
_N_TASKS = 3  # of a rung
_SHARE = 0.6  # of the budget for the choice; the rest is for measuring what was chosen
_CLOSE = 1.1  # times as fast as the second: then the best one is measured alone
_REPEATS = 2  # of each task in a rung: the second one finds the prompt passed already
_SEVERAL = 3  # repeats at the end, from which a median leaves out one that was disturbed
_MOST_REPEATS = 5  # of each task at the end; more would tell little


@dataclass(frozen=True, slots=True)
class Trial:
    """One run. Those of one turn are compared with each other."""

    candidate: str
    task: str
    rung: int
    turn: int
    n_tokens: int
    tps: float | None  # tokens per second, without the prompt pass
    wall_s: float  # all of it
    n_drafted: int = 0
    n_drafts: int = 0  # rounds with a draft


@dataclass(frozen=True, slots=True)
class Search:
    """How far it has come."""

    alive: tuple[str, ...]  # the best first
    trials: tuple[Trial, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)  # candidates that did not start, and why
    out_in: Mapping[str, int] = field(default_factory=dict)  # the rung that a candidate left in
    final: int | None = None  # the rung of the runs that were made after the choice

    def ratio(self, candidate: str, rung: int | None = None) -> Ratio | None:
        """A candidate's speed over plain decoding's; rung: in that one alone."""
        return overall(list(self.pairs(candidate, rung).values()))

    def pairs(self, candidate: str, rung: int | None = None) -> dict[str, list[float]]:
        """By task, how many times as fast as plain decoding in the same turn each run was."""
        plain = {(trial.turn, trial.task): trial.tps for trial in self.trials if trial.candidate == PLAIN}
        found: dict[str, list[float]] = {}
        for trial in self.trials:
            base = plain.get((trial.turn, trial.task))
            if trial.candidate == candidate and trial.tps and base and rung in (None, trial.rung):
                found.setdefault(trial.task, []).append(trial.tps / base)
        return found

    def speed(self, candidate: str) -> Spread | None:
        return spread(trial.tps for trial in self.trials if trial.candidate == candidate)

    @property
    def best(self) -> str | None:
        """The candidate that is ahead; None before the first comparison."""
        ratios = {name: ratio.value for name in self.alive if (ratio := self.ratio(name, self.final)) is not None}
        return max(ratios, key=lambda name: ratios[name], default=None)

    @property
    def verdict(self) -> Ratio | None:
        """The best one's ratio: by runs made after the choice, where there are some, since the best of several by noisy runs
        looks better than it is. With too few runs for an interval, from the least to the largest stands in its place."""
        if self.best is None:
            return None
        pairs = self.pairs(self.best, self.final)
        ratio, every = overall(list(pairs.values())), [each for ratios in pairs.values() for each in ratios]
        if ratio is None or ratio.low is not None or len(every) < 2:
            return ratio
        return Ratio(ratio.value, min(every), max(every))


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent."""

    seconds: float
    n_longest: int  # tokens of the longest run
    token_s: float  # a guess at what a token takes plainly
    prompt_s: float = 0.0  # a guess at what the prompt of a task takes
    together: bool = True  # all candidates are loaded at once; else each takes its turn at all tasks of a rung


# candidate, task, rung, tokens -> seconds of all, what was measured. Raises SpecdecError for a candidate that cannot run.
Run = Callable[[str, str, int, int], Trial]


def search(
    candidates: Sequence[str], tasks: Sequence[str], run: Run, budget: Budget, clock: Callable[[], float] = monotonic
) -> Iterator[Search]:
    """The state after each run; the last one is the answer. The first turn is always made, whatever the budget."""
    return _Searching(candidates, _mixed(tasks), run, budget, clock).go()


class _Searching:
    """A search under way."""

    def __init__(
        self, candidates: Sequence[str], tasks: Sequence[str], run: Run, budget: Budget, clock: Callable[[], float]
    ) -> None:
        self._state = Search(tuple(candidates))
        self._tasks = tasks
        self._run = run
        self._budget = budget
        self._clock = clock
        self._end_s = clock() + budget.seconds
        self._turn = 0

    def go(self) -> Iterator[Search]:
        n_rungs = max(1, math.ceil(math.log2(max(len(self._state.alive), 1))))
        n_tokens = self._first_length(n_rungs)
        choice_ends_s = self._end_s - (1 - _SHARE) * self._budget.seconds
        rung = 0
        while rung < n_rungs and self._state.alive:
            turns = self._grouped(self._few(rung))
            n_made = yield from self._turns(turns, self._state.alive, rung, n_tokens, choice_ends_s)
            if n_made:
                self._halve(rung, keep=math.ceil(len(self._state.alive) / 2) if n_made == len(turns) else None)
                yield self._state
            if n_made < len(turns):
                break
            n_tokens = min(2 * n_tokens, self._budget.n_longest)
            rung += 1
        if self._state.alive:
            self._halve(min(rung, n_rungs - 1), keep=self._n_finalists())
            enough_s = self._end_s - _REST * self._budget.seconds
            n_before = -1
            while n_before < len(self._state.trials) and (n_before < 0 or self._clock() < enough_s):
                n_before = len(self._state.trials)
                yield from self._confirm(rung + 1, n_tokens)
                n_tokens = min(2 * n_tokens, self._budget.n_longest)

    def _confirm(self, rung: int, n_tokens: int) -> Iterator[Search]:
        """Measure the finalists with what is left of the budget: several times at as many tasks as that allows."""
        names = self._state.alive
        left_s = self._end_s - self._clock()
        n_wanted = _SEVERAL * min(_N_TASKS, len(self._tasks))  # rather shorter runs than those of one task alone
        while n_tokens > N_LEAST and n_wanted * self._expected_s(names, n_tokens) > left_s:
            n_tokens = max(n_tokens // 2, N_LEAST)
        n_fitting = int(left_s / self._expected_s(names, n_tokens))
        n_tasks = min(max(n_fitting // _SEVERAL, 1), len(self._tasks))
        n_repeats = min(n_fitting // n_tasks, _MOST_REPEATS)
        tasks = self._tasks[:n_tasks]
        for block in [[task] for task in tasks] if self._budget.together else [tasks]:
            # Whole blocks: a task with fewer runs than the others would tell no interval.
            if self._clock() + n_repeats * len(block) * self._expected_s(names, n_tokens) > self._end_s:
                break
            yield from self._turns([block] * n_repeats, names, rung, n_tokens, math.inf)
            if any(trial.rung == rung for trial in self._state.trials):
                self._state = replace(self._state, final=rung)
                yield self._state

    def _turns(
        self, turns: Sequence[Sequence[str]], names: Sequence[str], rung: int, n_tokens: int, until_s: float
    ) -> Generator[Search, None, int]:
        """Let plain decoding and the candidates take turns, until the time is over; returns how many turns were made."""
        for n_made, tasks in enumerate(turns):
            alive = [name for name in names if name not in self._state.failed]
            if self._turn and self._clock() + len(tasks) * self._expected_s(alive, n_tokens) > until_s:
                return n_made
            # schedule() turns the order round from task to task; from turn to turn it is done here.
            members = [PLAIN, *alive] if self._turn % 2 == 0 else [*alive[::-1], PLAIN]
            for slot in schedule(tasks, members, 1, together=self._budget.together):
                if slot.variant not in self._state.failed:
                    self._measure(slot.variant, slot.task, rung, n_tokens)
                    yield self._state
            self._turn += 1
        return len(turns)

    def _measure(self, name: str, task: str, rung: int, n_tokens: int) -> None:
        state = self._state
        try:
            trial = replace(self._run(name, task, rung, n_tokens), turn=self._turn)
        except SpecdecError as error:
            if name == PLAIN:
                raise
            sentence = f"{error.what} {error.why}".strip()
            alive = tuple(each for each in state.alive if each != name)
            self._state = replace(state, alive=alive, failed={**state.failed, name: sentence})
        else:
            self._state = replace(state, trials=(*state.trials, trial))

    def _halve(self, rung: int, keep: int | None) -> None:
        """Put the candidates in order, and let the worse ones go. keep: how many stay; None: all of them."""
        state = self._state

        def gain(name: str) -> float:
            ratio = state.ratio(name)
            return ratio.value if ratio is not None else 0.0

        order = sorted(state.alive, key=gain, reverse=True)
        gone = order[keep:] if keep is not None else []
        self._state = replace(
            state,
            alive=tuple(name for name in order if name not in gone),
            out_in={**state.out_in, **dict.fromkeys(gone, rung)},
        )

    def _n_finalists(self) -> int:
        """The best one, and the second where it comes close: the runs so far are too few to part them."""
        ratios = sorted(
            (ratio.value for name in self._state.alive if (ratio := self._state.ratio(name)) is not None), reverse=True
        )
        return 2 if len(ratios) > 1 and ratios[1] * _CLOSE >= ratios[0] else 1

    def _few(self, rung: int) -> list[str]:
        """The tasks of a rung: each rung goes on where the last one ended."""
        n = min(_N_TASKS, len(self._tasks))
        return [self._tasks[(rung * n + i) % len(self._tasks)] for i in range(n)]

    def _grouped(self, tasks: Sequence[str]) -> list[list[str]]:
        """The turns of a rung: two for each task; a single one where every candidate has to be loaded for its turn."""
        return [[task] for task in tasks for _ in range(_REPEATS)] if self._budget.together else [list(tasks)]

    def _first_length(self, n_rungs: int) -> int:
        """Tokens of the first runs: so many that all rungs fit, and doubling ends at the longest."""
        budget = self._budget
        n_prompts = (len(self._state.alive) + 1) * min(_N_TASKS, len(self._tasks))
        n_affordable = (_SHARE * budget.seconds / n_rungs / n_prompts - budget.prompt_s) / _REPEATS / budget.token_s
        n_useful = max(budget.n_longest >> (n_rungs - 1), N_LEAST)
        return max(min(int(n_affordable), n_useful, budget.n_longest), min(N_LEAST, budget.n_longest))

    def _expected_s(self, names: Sequence[str], n_tokens: int) -> float:
        """Seconds that plain decoding and these take for one task, as far as their runs so far tell."""
        total_s = 0.0
        for name in (PLAIN, *names):
            own = [trial for trial in self._state.trials if trial.candidate == name and trial.tps]
            if own:
                token_s = sum(1 / trial.tps for trial in own if trial.tps) / len(own)
                rest_s = sum(trial.wall_s - trial.n_tokens / trial.tps for trial in own if trial.tps) / len(own)
                total_s += max(rest_s, 0.0) + n_tokens * token_s
            else:
                total_s += self._budget.prompt_s + n_tokens * self._budget.token_s
        return total_s


def _mixed(tasks: Sequence[str]) -> list[str]:
    """Neighbours, which are often of one kind, apart."""
    return [*tasks[0::_N_TASKS], *tasks[1::_N_TASKS], *tasks[2::_N_TASKS]]
