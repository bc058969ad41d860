"""The search on simulated candidates: it finds the best by the clock, says plain when nothing gains, keeps to its budget."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from specdec_cli.bench import tuned
from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.tuning import N_LEAST, Budget, Search, Trial, search
from specdec_cli.bench.ways import Way
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import PairError

TASKS = ("code", "json", "edit", "summary", "prose", "chat")
PLAIN_TPS = 20.0


@dataclass
class Simulated:
    """A machine on which candidates are so many times as fast as plain decoding, with noise and a drifting speed."""

    gains: Mapping[str, float]
    noise: float = 0.02
    drift: float = 0.0
    prompt_s: float = 0.2
    seed: int = 0
    broken: Sequence[str] = ()
    now_s: float = 0.0
    made: list[tuple[str, str, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def clock(self) -> float:
        return self.now_s

    def run(self, name: str, task: str, rung: int, n_tokens: int) -> Trial:
        if name in self.broken:
            raise PairError(f"{name} is broken.", "So it is.")
        self.made.append((name, task, rung, n_tokens))
        tps = PLAIN_TPS * (self.gains[name] if name != PLAIN else 1.0) * self.random.lognormvariate(0, self.noise)
        tps *= 1 + self.drift * (self.now_s % 60) / 60
        wall_s = self.prompt_s + n_tokens / tps
        self.now_s += wall_s
        return Trial(name, task, rung, 0, n_tokens, tps, wall_s, n_drafted=3 * n_tokens, n_drafts=n_tokens)

    def search(self, seconds: float = 300.0, *, together: bool = True, n_longest: int = 128) -> Search:
        budget = Budget(seconds, n_longest, 1 / PLAIN_TPS, self.prompt_s, together)
        return list(search(list(self.gains), TASKS, self.run, budget, self.clock))[-1]


def _ways(gains: Mapping[str, float]) -> list[Way]:
    return [Way(name, name, name, 16) for name in gains]


GAINS = {"a": 0.7, "b": 1.1, "c": 1.5, "d": 0.9, "e": 1.25, "f": 1.0}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("together", [True, False])
def test_the_best_is_found(seed: int, together: bool) -> None:
    found = Simulated(GAINS, noise=0.05, seed=seed).search(together=together)
    assert found.best == "c"
    verdict = tuned.judge(found, _ways(GAINS))
    assert verdict.best == "c"
    assert verdict.speedup is not None
    assert verdict.speedup.value == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_whose_speed_drifts_misleads_nobody(seed: int) -> None:
    assert Simulated(GAINS, noise=0.03, drift=1.0, seed=seed).search().best == "c"


@pytest.mark.parametrize("seed", range(5))
def test_plain_decoding_wins_where_nothing_gains(seed: int) -> None:
    gains = {"a": 0.97, "b": 0.9, "c": 1.0, "d": 0.8}
    verdict = tuned.judge(Simulated(gains, noise=0.04, seed=seed).search(), _ways(gains))
    assert verdict.best == PLAIN
    assert verdict.sentence.startswith("Plain decoding")


def test_one_run_is_not_enough_to_leave_plain_decoding() -> None:
    machine = Simulated({"a": 3.0})
    first = next(state for state in search(["a"], TASKS, machine.run, Budget(60, 64, 0.05), machine.clock) if state.best)
    verdict = tuned.judge(first, _ways({"a": 3.0}))
    assert verdict.best == PLAIN
    assert "ran once beside it" in verdict.sentence


@pytest.mark.parametrize("seconds", [5.0, 20.0, 60.0, 120.0, 600.0])
def test_it_ends_within_its_budget(seconds: float) -> None:
    machine = Simulated(GAINS, noise=0.05)
    machine.search(seconds)
    first_turn_s = (len(GAINS) + 1) * (machine.prompt_s + 2 * N_LEAST / PLAIN_TPS)
    assert machine.now_s <= 1.1 * max(seconds, first_turn_s)


def test_a_budget_of_nothing_still_makes_one_turn() -> None:
    machine = Simulated(GAINS)
    found = machine.search(0.001)
    assert [name for name, *_ in machine.made] == [PLAIN, *GAINS]
    assert {n for *_, n in machine.made} == {N_LEAST}
    assert found.best is not None


def test_half_of_them_leave_in_each_round_and_runs_get_longer() -> None:
    machine = Simulated(GAINS)
    found = machine.search()
    rounds = {rung: {name for name, _, of, _ in machine.made if of == rung} - {PLAIN} for rung in range(4)}
    assert [len(rounds[rung]) for rung in range(3)] == [6, 3, 2]
    assert rounds[0] >= rounds[1] >= rounds[2]
    assert sorted(found.out_in) == sorted(set(GAINS) - set(found.alive))
    lengths = [max(n for *_, of, n in machine.made if of == rung) for rung in range(3)]
    assert lengths[0] < lengths[1] < lengths[2] <= 128


def test_plain_decoding_takes_part_in_every_turn_and_the_order_is_turned() -> None:
    machine = Simulated({"a": 1.2, "b": 1.1})
    found = machine.search()
    turns: dict[int, list[str]] = {}
    for trial in found.trials:
        turns.setdefault(trial.turn, []).append(trial.candidate)
    assert all(PLAIN in names for names in turns.values())
    assert {names.index(PLAIN) == 0 for names in turns.values()} == {True, False}


def test_the_verdict_rests_on_runs_made_after_the_choice() -> None:
    found = Simulated(GAINS).search()
    assert found.best is not None
    assert found.final is not None
    late = [trial for trial in found.trials if trial.rung == found.final and trial.candidate == found.best]
    assert len(late) >= 2
    assert found.verdict is not None
    assert found.verdict.value == found.ratio(found.best, found.final).value  # type: ignore[union-attr]


def test_a_candidate_that_does_not_run_is_left_out_with_its_sentence() -> None:
    found = Simulated(GAINS, broken=["c"]).search()
    assert found.failed == {"c": "c is broken. So it is."}
    assert found.best == "e"
    assert [each.name for each in tuned.left_out({}, found)] == ["c"]
    assert "c" not in [each.name for each in tuned.standings(found, _ways(GAINS))]


def test_plain_decoding_that_does_not_run_is_an_error() -> None:
    with pytest.raises(PairError):
        Simulated({"a": 1.0}, broken=[PLAIN]).search()


def test_what_was_measured_before_an_interruption_says_who_is_ahead() -> None:
    machine = Simulated(GAINS, noise=0.0)
    states: list[Search] = []

    def run(name: str, task: str, rung: int, n_tokens: int) -> Trial:
        if len(machine.made) == 2 * (len(GAINS) + 1):
            raise PassAborted
        return machine.run(name, task, rung, n_tokens)

    with pytest.raises(PassAborted):
        states.extend(search(list(GAINS), TASKS, run, Budget(300, 128, 0.05), machine.clock))
    # extend() keeps what came before the end
    assert states[-1].best == "c"
    assert tuned.judge(states[-1], _ways(GAINS)).best == "c"


def test_standings_hold_what_was_measured() -> None:
    found = Simulated(GAINS).search()
    rows = tuned.standings(found, _ways(GAINS))
    assert rows[0].name == PLAIN
    assert rows[0].ratio is None
    assert {each.name for each in rows[1:]} == set(GAINS)
    best = next(each for each in rows if each.name == found.best)
    assert best.draft_length == 3
    assert best.round is None
    assert best.n_runs == max(each.n_runs for each in rows[1:])
    assert all(each.round is not None for each in rows if each.name not in (PLAIN, *found.alive))
