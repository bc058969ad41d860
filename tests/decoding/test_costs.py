"""T(n): measured widths, what lies between and beyond them, and what makes all passes slower at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.costs import CostCurve

seconds = st.dictionaries(st.integers(1, 32), st.floats(1e-4, 10), min_size=1)


def test_a_width_never_seen_lies_between_its_neighbours() -> None:
    curve = CostCurve({1: 1.0, 3: 2.0, 7: 4.0})
    assert [curve(n) for n in (1, 2, 3, 5, 7)] == pytest.approx([1.0, 1.5, 2.0, 3.0, 4.0])


def test_a_wider_pass_than_any_seen_goes_on_with_the_slope_of_all() -> None:
    assert CostCurve({1: 1.0, 5: 2.0})(9) == pytest.approx(3.0)


def test_a_wider_pass_than_any_seen_is_never_thought_cheaper() -> None:
    assert CostCurve({1: 2.0, 5: 1.0})(9) == pytest.approx(1.0)


def test_a_narrower_pass_than_any_seen_costs_what_the_narrowest_does() -> None:
    curve = CostCurve({4: 2.0, 8: 3.0})
    assert curve(1) == pytest.approx(2.0)
    assert CostCurve({4: 2.0})(99) == pytest.approx(2.0)


@settings(derandomize=True, deadline=None)
@given(seconds)
def test_what_is_known_is_what_was_told(told: dict[int, float]) -> None:
    assert CostCurve(told).known() == pytest.approx(told)


@settings(derandomize=True, deadline=None)
@given(seconds, st.lists(st.tuples(st.integers(1, 40), st.floats(1e-4, 10)), max_size=20))
def test_the_next_run_begins_where_this_one_ended(told: dict[int, float], passes: list[tuple[int, float]]) -> None:
    curve = CostCurve(told)
    for n, s in passes:
        curve.observe(n, s)
    again = CostCurve(curve.known())
    assert [again(n) for n in range(1, 50)] == pytest.approx([curve(n) for n in range(1, 50)])


def test_a_wrong_calibration_is_put_right_by_what_passes_take() -> None:
    rng, curve = random.Random(1), CostCurve({1: 1.0, 4: 5.0, 8: 3.0})
    for _ in range(200):
        for n, s in ((1, 1.0), (4, 2.0), (8, 3.0)):
            curve.observe(n, s * rng.lognormvariate(0, 0.03))
    assert [curve(n) / curve(1) for n in (4, 8)] == pytest.approx([2.0, 3.0], rel=0.05)


def test_a_guess_between_others_gives_way_to_the_first_pass_of_its_width() -> None:
    curve = CostCurve({1: 1.0, 8: 4.0})
    curve.observe(4, 1.5)
    assert curve(4) == pytest.approx(1.5)
    assert curve(1) == 1.0
    assert curve(8) == 4.0


def test_passes_of_one_width_keep_the_others_current_when_everything_slows_down() -> None:
    curve = CostCurve({1: 1.0, 4: 2.0, 8: 3.0})
    for i in range(200):
        curve.observe(4, 2.0 * (1 + i / 200))
    assert curve(4) == pytest.approx(4.0, rel=0.1)
    assert curve(1) / curve(4) == pytest.approx(0.5, rel=0.25)


def test_an_outlier_hardly_moves_a_cost_that_was_seen_often() -> None:
    curve = CostCurve({1: 1.0, 4: 2.0})
    for _ in range(30):
        curve.observe(4, 2.0)
    curve.observe(4, 100.0)
    assert curve(4) == pytest.approx(2.0, rel=0.05)
    assert curve(1) == pytest.approx(1.0, rel=0.05)


def test_an_outlier_as_the_first_pass_of_its_width_is_forgotten_soon() -> None:
    curve = CostCurve({1: 1.0, 8: 4.0})
    curve.observe(4, 50.0)
    for _ in range(20):
        curve.observe(4, 2.3)
        curve.observe(1, 1.0)
    assert curve(4) / curve(1) == pytest.approx(2.3, rel=0.1)


def test_a_widened_pass_costs_what_its_width_does() -> None:
    curve = CostCurve({2: 1.0, 4: 2.0, 8: 3.0}, lambda n: 2 if n <= 2 else 4 if n <= 4 else 8)
    assert [curve(n) for n in range(1, 9)] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]
    for _ in range(100):
        curve.observe(3, 2.4)
        curve.observe(2, 1.0)
    assert curve(4) / curve(1) == pytest.approx(2.4, rel=0.05)
    assert set(curve.known()) == {2, 4, 8}


@settings(derandomize=True, deadline=None)
@given(seconds, st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1e6)), max_size=50))
def test_costs_stay_positive_whatever_the_clock_says(told: dict[int, float], passes: list[tuple[int, float]]) -> None:
    curve = CostCurve(told)
    for n, s in passes:
        curve.observe(n, s)
    assert all(curve(n) > 0 for n in range(1, 50))
