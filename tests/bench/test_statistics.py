"""Ratios come with intervals that hold them, and nothing is called a gain that the runs cannot tell from noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.bench.results import EXACT, Cause, Difference, Ratio
from specdec_cli.bench.statistics import (
    Outcome,
    outcome,
    overall,
    overall_ratio,
    pairs,
    percentiles,
    spread,
    summarised,
    text_of,
)
from tests.bench import made

RATIOS = st.lists(st.floats(0.2, 5), min_size=1, max_size=6)


def test_a_spread_is_median_least_and_largest_of_what_is_known() -> None:
    found = spread([3.0, None, 1.0, 2.0])
    assert found is not None
    assert (found.median, found.low, found.high) == (2.0, 1.0, 3.0)
    assert spread([None]) is None


def test_runs_are_paired_by_repeat() -> None:
    found = made.results({"a": ([10, 20, 40], [15, 20, 80])})
    assert pairs(found, "ngram", "a") == [1.5, 1.0, 2.0]
    assert pairs(replace(found, runs=found.runs[1:]), "ngram", "a") == [1.0, 2.0]  # the plain run of repeat 0 is not there


def test_percentiles_are_those_of_the_waits_between_bursts() -> None:
    run = replace(made.run(), itl_s=tuple((i / 100, 1) for i in range(101)))
    assert percentiles([run]) == pytest.approx((0.5, 0.95, 0.99))
    assert percentiles([replace(run, itl_s=())]) is None


def test_over_tasks_the_ratio_is_the_geometric_mean_of_medians() -> None:
    found = overall([[2.0, 2.1, 1.9], [0.5, 0.5, 0.5]])
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert found.low == pytest.approx(math.sqrt(1.9 * 0.5))
    assert found.high == pytest.approx(math.sqrt(2.1 * 0.5))


@given(st.lists(RATIOS, min_size=1, max_size=5))
def test_an_interval_holds_its_ratio_and_stays_within_the_runs(tasks: list[list[float]]) -> None:
    found = overall(tasks)
    assert found is not None
    assert (found.low is None) == (min(map(len, tasks)) < 2)
    if found.low is not None and found.high is not None:
        assert found.low <= found.value <= found.high
        assert math.prod(map(min, tasks)) ** (1 / len(tasks)) <= found.low * (1 + 1e-9)
        assert found == overall(tasks)  # the same runs always give the same interval


def test_an_interval_narrows_with_more_runs_and_holds_the_truth_mostly() -> None:
    rng = np.random.default_rng(3)
    few = [overall([rng.normal(1.5, 0.1, 5).tolist() for _ in range(4)]) for _ in range(60)]
    many = [overall([rng.normal(1.5, 0.1, 40).tolist() for _ in range(4)]) for _ in range(60)]

    def width(found: list[Ratio | None]) -> float:
        return float(np.mean([each.high - each.low for each in found if each and each.high and each.low]))

    assert width(many) < 0.6 * width(few)
    assert sum(bool(each and each.low and each.high and each.low <= 1.5 <= each.high) for each in many) >= 50


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Ratio(1.5, 1.2, 1.8), Outcome.FASTER),
        (Ratio(1.5, 1.005, 1.8), Outcome.EQUAL),  # within noise
        (Ratio(1.5, 0.9, 1.8), Outcome.EQUAL),
        (Ratio(0.8, 0.7, 0.9), Outcome.SLOWER),
        (Ratio(0.99, 0.985, 0.995), Outcome.EQUAL),
        (Ratio(1.03), Outcome.EQUAL),  # one run each tells no spread
        (Ratio(1.2), Outcome.FASTER),
    ],
)
def test_a_gain_is_one_only_where_the_whole_interval_says_so(ratio: Ratio, said: Outcome) -> None:
    assert outcome(ratio) is said


def test_summaries_come_by_task_and_variant() -> None:
    found = summarised(made.results({"a": ([10, 12], [20, 30]), "b": ([10], [])}))
    assert [(each.task, each.variant, each.n_runs) for each in found] == [
        ("a", "plain", 2),
        ("a", "ngram", 2),
        ("b", "plain", 1),
    ]
    plain, drafted = found[:2]
    assert plain.ratio is None
    assert plain.text is None
    assert drafted.ratio is not None
    assert drafted.ratio.value == pytest.approx(2.25)
    assert drafted.acceptance == pytest.approx(0.75)
    assert drafted.tokens_per_pass == pytest.approx(2.5)
    assert drafted.text == "same"
    assert overall_ratio(made.results({"a": ([], [])}), "ngram") is None


def test_texts_are_compared_with_those_of_plain_decoding() -> None:
    found = made.results({"a": ([10, 10], [10, 10])})
    other = replace(found, runs=(*found.runs[:3], replace(found.runs[3], tokens_sha256="other")))
    assert text_of(found, "a", "ngram") == "same"
    assert text_of(other, "a", "ngram") == "differs"
    explained = replace(other, differences=(Difference("a", "ngram", 4, Cause.ROUNDING),))
    assert text_of(explained, "a", "ngram") == "rounding"
    assert text_of(replace(found, differences=(Difference("a", "ngram", 4, Cause.FAULT),)), "a", "ngram") == "fault"
    assert text_of(replace(found, runs=found.runs[2:]), "a", "ngram") is None
    # with --exact the plain run that counts is the exact one
    assert text_of(replace(found, variants=("plain", EXACT, "ngram")), "a", "ngram") is None
