"""The plain laws against the decoder's, and the statistics against numbers that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdec_cli.decoding.contracts import Law, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import processed
from specdec_cli.proof.laws import aligned, coupled, overlap, reference
from specdec_cli.proof.statistics import (
    chance_of,
    chi_square,
    chi_square_tail,
    distance,
    happened,
    placed,
    total_variation,
    visible_from,
)
from tests.fakes.laws import as_dict

HISTORY = (1, 2, 2, 5)


@given(
    row=st.lists(st.floats(-8, 8, width=32), min_size=6, max_size=30, unique=True),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 40]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
    penalty=st.sampled_from([1.0, 1.3]),
    bias=st.dictionaries(st.integers(0, 5), st.sampled_from([-math.inf, -1.0, 2.0]), max_size=2),
)
def test_both_ways_to_process_a_row_agree(
    row: list[float], temperature: float, top_k: int, top_p: float, min_p: float, penalty: float, bias: dict[int, float]
) -> None:
    params = SamplingParams(temperature, top_k, top_p, min_p, penalty, 3, 0.3, 0.2, bias)
    logits = np.array(row, dtype=np.float32)
    theirs = processed(logits, HISTORY[-3:], params)
    ours = reference(logits, HISTORY, params)
    edges = {token for token in ours.possible if token not in ours.ids}
    assert set(theirs.ids.tolist()) <= ours.possible
    if not edges and set(ours.ids.tolist()) == set(theirs.ids.tolist()):
        assert as_dict(Law(ours.ids, ours.probs)) == pytest.approx(as_dict(theirs), abs=1e-5)


def test_a_coupling_is_what_shared_noise_gives() -> None:
    params = SamplingParams(1.0, 0, 1.0, 0.0)
    a, b = (np.array(row, dtype=np.float32) for row in ([0.0, 1.0, 2.0, 0.5], [1.5, 0.0, 1.0, 0.0]))
    p, q = reference(a, (), params), processed(b, (), params)
    ids, n = np.arange(4), 20_000
    of_p, of_q = np.log(aligned(ids, p)), np.log(aligned(ids, q))
    same = sum((of_p + g).argmax() == (of_q + g).argmax() for g in (noise_for(1).gumbel(i, ids) for i in range(n)))
    assert same / n == pytest.approx(coupled(p, q), abs=0.015)
    assert coupled(p, q) <= overlap(p, q)


@pytest.mark.parametrize(("statistic", "dof"), [(0.5, 1), (9.0, 3), (40.0, 9), (3.0, 2), (30.0, 10), (0.0, 4), (5.0, 0)])
def test_the_tail_of_chi_square_is_scipys(statistic: float, dof: int) -> None:
    expected = stats.chi2.sf(statistic, dof) if dof else 1.0
    assert chi_square_tail(statistic, dof) == pytest.approx(expected, rel=1e-9)


def test_small_cells_of_a_chi_square_are_taken_together() -> None:
    assert chi_square({0: 30, 1: 6, 2: 4}, {0: 30.0, 1: 5.0, 2: 5.0}) == (0.0, 1)
    assert chi_square({0: 5}, {0: 2.0, 1: 3.0}) == (0.0, 0)
    assert total_variation({0: 5, 1: 5}, {0: 10.0}) == 0.5


@pytest.mark.parametrize("n", [1, 10, 100])
def test_a_distance_raises_an_alarm_from_where_it_is_said(n: int) -> None:
    assert chance_of(visible_from(1e-4, n), n) == pytest.approx(1e-4) or visible_from(1e-4, n) == 1.0
    assert distance([0.5] * n) == 0.5


def test_places_of_draws_and_events_are_uniform() -> None:
    chance = np.random.default_rng(1)
    ids, probs = np.array([7, 3, 9]), np.array([0.5, 0.3, 0.2])
    drawn = [placed(ids, probs, int(chance.choice(ids, p=probs)), chance.random()) for _ in range(4000)]
    events = [happened(bool(chance.random() < 0.3), 0.3, chance.random()) for _ in range(4000)]
    for values in (drawn, events):
        assert distance(values) == pytest.approx(stats.kstest(values, "uniform").statistic)
        assert chance_of(distance(values), len(values)) > 0.01
