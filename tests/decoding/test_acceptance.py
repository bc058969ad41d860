"""What a drafter's certainty is worth: learned for each certainty, quickly where the text turns, exactly where it does not."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.acceptance import Calibration, Rate

certainties = st.one_of(st.floats(0, 1), st.just(math.nan))


@pytest.mark.parametrize("certainty", [0.02, 0.15, 0.5, 0.85, 0.97, 0.9999])
def test_before_anything_is_known_a_certainty_is_taken_for_a_rate(certainty: float) -> None:
    assert Calibration().rate(certainty) == pytest.approx(certainty, abs=0.06)


def test_a_drafter_that_says_nothing_is_hoped_to_be_good() -> None:
    assert Calibration().rate(math.nan) >= 0.8


def test_a_few_refusals_end_the_hope() -> None:
    calibration = Calibration()
    for _ in range(4):
        calibration.observe(math.nan, False)
    assert calibration.rate(math.nan) < 0.5


@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_an_over_confident_drafter_is_seen_through(true: float) -> None:
    rng, calibration = random.Random(3), Calibration()
    for _ in range(400):
        calibration.observe(0.97, rng.random() < true)
    assert calibration.rate(0.97) == pytest.approx(true, abs=0.15)


def test_each_certainty_has_a_rate_of_its_own() -> None:
    calibration = Calibration()
    for i in range(400):
        calibration.observe(0.95, i % 20 != 0)
        calibration.observe(0.35, i % 5 == 0)
    assert calibration.rate(0.95) > 0.85
    assert calibration.rate(0.35) < 0.4
    assert calibration.rate(0.35) < calibration.lately < calibration.rate(0.95)


def test_a_text_that_turns_is_noticed_within_a_few_tokens() -> None:
    rng, calibration = random.Random(5), Calibration()
    for _ in range(300):
        calibration.observe(0.9, rng.random() < 0.9)
    assert calibration.rate(0.9) > 0.8
    for _ in range(10):
        calibration.observe(0.9, False)
    assert calibration.rate(0.9) < 0.5


def test_a_text_that_does_not_turn_is_learned_ever_more_exactly() -> None:
    """Far closer than the last ten tokens tell."""
    rng, errors = random.Random(7), []
    rate = Rate(1.0, 2.0)
    for i in range(1000):
        rate.observe(rng.random() < 0.8)
        if i > 200:
            errors.append((rate.now - 0.8) ** 2)
    assert math.sqrt(sum(errors) / len(errors)) < 0.07  # sqrt(0.8 * 0.2 / 10) = 0.13


def test_a_look_tells_of_the_next_token_without_a_draw() -> None:
    calibration = Calibration()
    before = calibration.rate(0.15)
    for _ in range(10):
        calibration.look(0.15)
    assert calibration.lately < 0.5
    assert calibration.rate(0.15) == before


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(certainties, st.booleans()), max_size=80), certainties)
def test_every_rate_is_a_probability(judged: list[tuple[float, bool]], asked: float) -> None:
    calibration = Calibration()
    for certainty, accepted in judged:
        calibration.observe(certainty, accepted)
        calibration.look(certainty)
    assert 0 <= calibration.rate(asked) <= 1
    assert 0 <= calibration.lately <= 1


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(certainties, st.booleans()), max_size=80))
def test_the_next_run_begins_with_what_this_one_knew(judged: list[tuple[float, bool]]) -> None:
    calibration = Calibration()
    for certainty, accepted in judged:
        calibration.observe(certainty, accepted)
    assert Calibration(calibration.known()).known() == calibration.known()


def test_what_an_older_version_remembered_in_other_bins_is_not_used() -> None:
    assert Calibration([(1.0, 2.0)] * 3).known() == Calibration().known()
