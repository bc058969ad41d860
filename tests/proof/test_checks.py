"""Every planted fault is found on fakes, and what is right raises no alarm."""

from __future__ import annotations

import pytest

from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.proof import cache, greedy, run, sampled
from specdec_cli.proof.report import Check, State
from specdec_cli.proof.subject import Clock, Work
from tests.fakes.drafters import Silent
from tests.proof import subjects
from tests.proof.subjects import FakeSession, Plant, steps_for_seconds, work

GREEDY = SamplingParams(temperature=0)


def silent(share: float) -> None: ...


def sampling(made: Work, steps: int = 1200) -> Check:
    return sampled.check(made, Clock(steps), silent)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps_for_seconds(monkeypatch)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (subjects.accept_all, "forbids"),
        (subjects.residual_not_subtracted, "q has too often already"),
        (subjects.residual_of_a_point_mass, "q has too often already"),
        (subjects.q_misreported, "draft tokens are draws from q"),
        (subjects.bonus_from_q, "forbids"),
        (subjects.own_probability, "left out after it was drawn"),
        (subjects.next_probability, "left out after it was drawn"),
        (subjects.short_draft, "left out after it was drawn"),
        (subjects.shared_noise, "the noise of drafter and verifier is independent"),
        (subjects.match_by_the_draft, "not the target's own draw"),
    ],
)
def test_a_fault_of_sampling_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, words: str) -> None:
    plant(monkeypatch)
    found = sampling(work())
    assert found.state is State.FAULT
    said = [fault.what for fault in found.faults] + [test.name for test in found.tests if test.alarm]
    assert any(words in each for each in said), said


@pytest.mark.parametrize(
    "plant", [subjects.accept_all, subjects.own_probability, subjects.q_misreported, subjects.shared_noise]
)
def test_the_statistics_alone_find_what_no_single_token_shows(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    assert any(test.alarm for test in sampling(work()).tests)


@pytest.mark.parametrize(
    "plant",
    [
        subjects.q_not_processed,
        subjects.target_keeps(1),
        subjects.target_keeps(-1),
        subjects.draft_keeps(1),
        subjects.draft_keeps(-1),
    ],
    ids=["q not processed", "target, next", "target, previous", "draft, next", "draft, previous"],
)
def test_a_fault_of_a_cache_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    assert cache.check(work(), Clock(12), silent).state is State.FAULT


def test_a_token_that_is_not_the_best_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects.accept_all(monkeypatch)
    found = greedy.check(work(), GREEDY, Clock(20), silent)
    assert found.state is State.FAULT
    assert "not the best of the row" in found.sentence


@pytest.mark.parametrize("seed", range(50))
def test_what_is_right_raises_no_alarm(seed: int) -> None:
    found = list(run.checks(work(1000 * seed), 400, lambda name, share: None))
    assert [check.name for check in found] == list(run.CHECKS)
    assert [check.sentence for check in found if check.state is State.FAULT] == []


def test_what_was_not_seen_is_not_claimed() -> None:
    session = FakeSession(Silent())
    assert greedy.check(work(session=session), GREEDY, Clock(5), silent).state is State.UNSEEN
    found = sampling(work(session=session), 100)
    assert found.state is State.UNSEEN
    assert "too few" in found.sentence


def test_more_draws_show_smaller_faults() -> None:
    few, many = sampling(work(), 150), sampling(work(), 1500)
    assert all(a.sees > b.sees for a, b in zip(few.tests, many.tests, strict=True))
