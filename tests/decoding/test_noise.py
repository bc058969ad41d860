"""Noise is a pure function of its key and the question, and follows the laws it is said to follow."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specdec_cli.decoding import noise
from specdec_cli.decoding.noise import CounterNoise, NoNoise, noise_for

N = 10_000
IDS = np.arange(N)
seeds = st.integers(-(2**70), 2**70)


@settings(derandomize=True, deadline=None)
@given(seeds, st.integers(0, 2**40), st.lists(st.integers(0, 300_000), min_size=1, max_size=20))
def test_the_same_question_gets_the_same_answer(seed: int, position: int, ids: list[int]) -> None:
    together = noise_for(seed).gumbel(position, np.array(ids))
    noise_for(seed).uniform(position)
    alone = [noise_for(seed).gumbel(position, np.array([token]))[0] for token in ids]
    assert together.tolist() == alone
    assert noise_for(seed).uniform(position) == noise_for(seed).uniform(position)


@settings(derandomize=True, deadline=None)
@given(seeds, st.integers(0, 2**40))
def test_uniform_lies_in_the_half_open_unit_interval(seed: int, position: int) -> None:
    assert 0 <= noise_for(seed).uniform(position) < 1


@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_gumbel_is_finite_at_the_ends_of_its_bits(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_mix_lanes", lambda key, lanes: np.full(lanes.shape, bits, dtype=np.uint64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(CounterNoise(0).gumbel(0, np.arange(3))).all()


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_gumbel_follows_the_gumbel_law_over_ids_and_over_positions(seed: int) -> None:
    over_ids = noise_for(seed).gumbel(5, IDS)
    over_positions = np.array([noise_for(seed).gumbel(position, IDS[:1])[0] for position in range(N // 4)])
    assert stats.kstest(over_ids, "gumbel_r").pvalue > 0.01
    assert stats.kstest(over_positions, "gumbel_r").pvalue > 0.01


def test_uniform_follows_the_uniform_law_over_positions_and_over_seeds() -> None:
    over_positions = [noise_for(3).uniform(position) for position in range(N)]
    over_seeds = [noise_for(seed).uniform(3) for seed in range(N)]
    assert stats.kstest(over_positions, "uniform").pvalue > 0.01
    assert stats.kstest(over_seeds, "uniform").pvalue > 0.01


def gumbels(seed: int, position: int, shift: int = 0) -> npt.NDArray[np.float64]:
    return noise_for(seed).gumbel(position, IDS + shift)


def uniforms(*words: int) -> npt.NDArray[np.float64]:
    return np.array([noise_for(*words).uniform(position) for position in range(N)])


def independent(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> bool:
    """No linear correlation, and an 8 x 8 table of the ranks that looks like chance."""
    table, _, _ = np.histogram2d(a.argsort().argsort(), b.argsort().argsort(), bins=8)
    return bool(abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(N) and stats.chi2_contingency(table).pvalue > 1e-3)


def test_neighbouring_positions_ids_and_seeds_are_independent() -> None:
    base = gumbels(1, 100)
    assert independent(base, gumbels(1, 101))
    assert independent(base, gumbels(1, 100, shift=1))
    assert independent(base, gumbels(2, 100))
    assert independent(base, gumbels(100, 1))


def test_streams_and_rounds_of_one_seed_are_independent() -> None:
    base = uniforms(1, 1, 0)
    assert independent(base, uniforms(1, 2, 0))
    assert independent(base, uniforms(1, 1, 1))
    assert independent(base, uniforms(1, 0, 1))
    assert independent(base, np.roll(base, 1))


def test_uniform_is_independent_of_the_gumbel_noise_at_its_position() -> None:
    source = noise_for(9)
    first = np.array([source.gumbel(position, IDS[:1])[0] for position in range(N)])
    assert independent(np.array([source.uniform(position) for position in range(N)]), first)


def test_the_measure_of_independence_can_fail() -> None:
    base = gumbels(1, 100)
    assert not independent(base, base)
    assert not independent(base, np.abs(base - np.median(base)))


def test_no_noise_leaves_the_arg_max() -> None:
    assert not NoNoise().gumbel(3, IDS).any()
    assert 0 <= NoNoise().uniform(3) < 1
