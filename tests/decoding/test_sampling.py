"""A row of logits becomes the same distribution as in a slow, plain implementation, and draws follow it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from specdec_cli.decoding.contracts import Ids, Law, Sampler, SamplingParams
from specdec_cli.decoding.noise import NoNoise, noise_for
from specdec_cli.decoding.sampling import Row, Walk, certainty, draw, largest, processed
from specdec_cli.errors import BackendError
from tests.fakes.constraint import FakeConstraint
from tests.fakes.laws import as_dict
from tests.fakes.runs import GREEDY, PURE

INF = math.inf
# Eighths, so that sums and penalties are exact in float32 and equal logits are common.
logits = st.one_of(st.integers(-64, 64).map(lambda n: n / 8), st.just(-INF))


@st.composite
def rows(draw_value: st.DrawFn, max_size: int = 40) -> Row:
    """Short rows by hand, or long ones from a seed: long enough for every block and margin of the search."""
    if draw_value(st.booleans()):
        return draw_value(arrays.arrays(np.float32, st.integers(1, max_size), elements=logits))
    source = np.random.default_rng(draw_value(st.integers(0, 10_000)))
    spread = draw_value(st.sampled_from([0.25, 2.0, 8.0, 40.0]))
    row = np.round(source.normal(0, spread, draw_value(st.integers(1, 700))) * 8) / 8
    row[source.random(row.size) < draw_value(st.sampled_from([0.0, 0.1, 0.99]))] = -INF
    return row.astype(np.float32)


params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, -1.0, 1e-300, 1e-3, 0.3, 0.8, 1.0, 2.5, 1e6]),
    top_k=st.sampled_from([-1, 0, 1, 2, 5, 40, 100, 1000]),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0, 2.0]),
    min_p=st.sampled_from([-1.0, 0.0, 0.01, 0.05, 0.5, 1.0, 2.0]),
    repeat_penalty=st.sampled_from([1.0, 2.0, 0.5]),
    repeat_last_n=st.sampled_from([0, 64, -1]),
    presence_penalty=st.sampled_from([0.0, 0.5, -0.25]),
    frequency_penalty=st.sampled_from([0.0, 0.25, 1.0]),
    logit_bias=st.dictionaries(st.integers(-2, 12), st.sampled_from([-INF, -2.0, 0.125, 8.0]), max_size=6),
)


def reference(row: Row, recent: Sequence[int], p: SamplingParams, legal: frozenset[int] | None) -> dict[int, float] | None:
    """The processed distribution, one step after the other, in plain Python; None where rounding decides what top-p keeps."""
    logit = {i: float(value) for i, value in enumerate(row)}
    for token, bias in p.logit_bias.items():
        if token in logit:
            logit[token] += bias
    for token, count in Counter(recent).items():
        if p.repeat_last_n != 0 and token in logit:
            logit[token] *= p.repeat_penalty if logit[token] <= 0 else 1 / p.repeat_penalty
            logit[token] -= count * p.frequency_penalty + p.presence_penalty
    left = [i for i in logit if logit[i] > -INF and (legal is None or i in legal)]
    left.sort(key=lambda i: (-logit[i], i))
    if not left:
        return {}
    if p.temperature <= 0:
        return {left[0]: 1.0}
    if p.top_k > 0:
        left = left[: p.top_k]
    mass = {i: math.exp(logit[i] - logit[left[0]]) for i in left}
    if p.top_p < 1:
        total, seen, n = math.fsum(mass.values()), 0.0, 0
        for token in left:
            n += 1
            seen += mass[token]
            if abs(seen - p.top_p * total) <= 1e-9 * total:
                return None
            if seen >= p.top_p * total:
                break
        left = left[:n]
    if p.min_p > 0:
        left = [i for i in left if logit[i] - logit[left[0]] >= math.log(min(p.min_p, 1.0))]
    weights = {i: math.exp((logit[i] - logit[left[0]]) / p.temperature) for i in left}
    total = math.fsum(weights.values())
    return {i: weight / total for i, weight in weights.items() if weight > 0}


@settings(derandomize=True, deadline=None, max_examples=200)
@given(rows(), st.integers(1, 800))
def test_the_largest_are_those_of_a_stable_sort(row: Row, k: int) -> None:
    expected = sorted(range(row.size), key=lambda i: (-row[i], i))[:k]
    assert largest(row, k).tolist() == expected


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    rows(),
    st.lists(st.sampled_from([*range(10), 5000]), max_size=12),
    params,
    st.sampled_from([None, 0.02, 0.5, 0.9]),
    st.integers(0, 99),
)
def test_processing_equals_the_plain_reference(
    row: Row, recent: list[int], p: SamplingParams, share: float | None, seed: int
) -> None:
    legal, constraint = None, None
    if share is not None:
        legal = frozenset(np.flatnonzero(np.random.default_rng(seed).random(row.size) < share).tolist())
        constraint = FakeConstraint(lambda taken: legal)
    before = row.copy()
    law = processed(row, recent, p, constraint)
    expected = reference(row, recent, p, legal)
    assume(expected is not None)
    assert as_dict(law) == pytest.approx(expected, rel=1e-9)
    assert len(set(law.ids.tolist())) == law.ids.size
    assert np.array_equal(row, before), "the row belongs to the target"


def test_a_repeat_penalty_moves_logits_of_either_sign_down() -> None:
    penalised = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=2.0)
    row = np.array([-0.5, 0.5, 0.0, 0.25], dtype=np.float32)
    by_hand = np.exp([-1.0, 0.25, 0.0, 0.25])
    assert as_dict(processed(row, [0, 1, 2, 1], penalised)) == pytest.approx(dict(enumerate(by_hand / by_hand.sum())))


@pytest.mark.parametrize("top_k", [0, 4])
def test_top_p_keeps_no_more_than_it_needs(top_k: int) -> None:
    halved = SamplingParams(temperature=1.0, top_k=top_k, top_p=0.5, min_p=0.0)
    assert as_dict(processed(np.zeros(4, dtype=np.float32), (), halved)) == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize("size", [1, 64, 65, 200, 3000])
@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0, 30.0])
def test_without_top_k_the_search_in_blocks_keeps_what_top_p_and_min_p_keep(size: int, spread: float) -> None:
    row = np.random.default_rng(size).normal(0, spread, size).astype(np.float32)
    for top_p, min_p in ((0.5, 0.0), (0.9, 0.05), (0.999, 0.0), (1.0, 0.02), (1.0, 0.0)):
        p = SamplingParams(temperature=0.7, top_k=0, top_p=top_p, min_p=min_p)
        expected = reference(row, (), p, None)
        assert expected is not None
        assert as_dict(processed(row, (), p)) == pytest.approx(expected, rel=1e-9)


@settings(derandomize=True, deadline=None)
@given(rows(), params)
def test_a_law_that_is_not_empty_sums_to_one_and_holds_no_impossible_token(row: Row, p: SamplingParams) -> None:
    law = processed(row, (), p)
    assert (law.probs > 0).all()
    assert law.ids.size == 0 or law.probs.sum() == pytest.approx(1)


@pytest.mark.parametrize("p", [GREEDY, PURE, SamplingParams(), SamplingParams(top_k=0), SamplingParams(top_k=0, top_p=1.0)])
@pytest.mark.parametrize("grammar", [None, frozenset({0}), frozenset(range(100))])
def test_a_row_with_nan_is_refused(p: SamplingParams, grammar: frozenset[int] | None) -> None:
    constraint = None if grammar is None else FakeConstraint(lambda taken: grammar)
    for at in (0, 50, 99):
        row = np.linspace(0, 1, 100, dtype=np.float32)
        row[at] = np.nan
        with pytest.raises(BackendError, match="NaN"):
            processed(row, (), p, constraint)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("p", [GREEDY, PURE, SamplingParams(), SamplingParams(top_k=0), SamplingParams(top_k=0, top_p=1.0)])
def test_a_row_without_possible_tokens_gives_an_empty_law(p: SamplingParams) -> None:
    law = processed(np.full(100, -INF, dtype=np.float32), (), p)
    assert law.ids.size == law.probs.size == 0
    assert draw(law, NoNoise(), 0) is None


@pytest.mark.filterwarnings("error")
def test_a_tiny_temperature_is_greedy_among_unequal_logits() -> None:
    law = processed(
        np.array([1.0, 3.0, 2.0], dtype=np.float32), (), SamplingParams(temperature=1e-300, top_k=0, top_p=1.0, min_p=0.0)
    )
    assert (law.ids.tolist(), law.probs.tolist()) == ([1], [1.0])


def test_greedy_takes_the_lowest_id_of_equal_logits() -> None:
    row = np.array([0.0, 2.0, 1.0, 2.0], dtype=np.float32)
    assert draw(processed(row, (), GREEDY), noise_for(1), 0) == 1
    assert draw(processed(row, (), GREEDY, FakeConstraint(lambda taken: frozenset({0, 2, 3}))), noise_for(1), 0) == 3


def test_only_candidates_are_shown_to_the_constraint() -> None:
    shown: list[int] = []

    class Counting(FakeConstraint):
        def allowed(self, ids: Ids) -> npt.NDArray[np.bool_]:
            shown.append(ids.size)
            return super().allowed(ids)

    row = np.arange(50_000, dtype=np.float32)
    processed(row, (), SamplingParams(top_k=40), Counting(lambda taken: frozenset(range(50_000))))
    assert sum(shown) == 64


def test_certainty_is_the_largest_probability() -> None:
    row = np.array([0.0, 1.0, -INF, 3.0], dtype=np.float32)
    weights = np.exp(row.astype(np.float64))
    assert certainty(row) == pytest.approx(weights[3] / weights.sum())


def test_draws_follow_the_law() -> None:
    law = Law(np.array([9, 2, 5, 30]), np.array([0.5, 0.3, 0.15, 0.05]))
    n = 4000
    drawn = Counter(draw(law, noise_for(seed), 3) for seed in range(n))
    observed = [drawn[token] for token in law.ids.tolist()]
    assert sum(observed) == n
    assert stats.chisquare(observed, law.probs * n).pvalue > 0.01


def test_a_draw_does_not_depend_on_the_order_of_the_law() -> None:
    law = Law(np.array([9, 2, 5]), np.array([0.5, 0.3, 0.2]))
    turned = Law(law.ids[::-1].copy(), law.probs[::-1].copy())
    assert all(draw(law, noise_for(seed), 0) == draw(turned, noise_for(seed), 0) for seed in range(200))


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
    st.lists(st.integers(0, 5), max_size=8),
    st.sampled_from([-1, 0, 1, 3, 64]),
)
def test_a_walk_processes_each_place_with_the_tokens_before_it(context: list[int], ahead: list[int], last_n: int) -> None:
    p = SamplingParams(temperature=1.0, top_k=0, repeat_penalty=2.0, frequency_penalty=0.5, repeat_last_n=last_n)
    row = np.linspace(-1, 1, 6, dtype=np.float32)
    walk = Walk(Sampler(p, NoNoise()), context)
    for i in range(len(ahead) + 1):
        history = context + ahead[:i]
        recent = history if last_n < 0 else history[len(history) - min(last_n, len(history)) :]
        expected = processed(row, recent, p)
        law = walk.law(row)
        assert walk.position == len(history)
        assert (law.ids.tolist(), law.probs.tolist()) == (expected.ids.tolist(), expected.probs.tolist())
        if i < len(ahead):
            walk.advance(ahead[i])


def test_a_walk_leaves_the_constraint_of_its_sampler_alone() -> None:
    constraint = FakeConstraint(lambda taken: frozenset({len(taken)}))
    walk = Walk(Sampler(PURE, NoNoise(), constraint), [7])
    row = np.zeros(4, dtype=np.float32)
    for token in range(3):
        assert walk.law(row).ids.tolist() == [token]
        walk.advance(token)
    assert constraint.taken == ()
