"""match() follows the target's own draws; reject() takes each branch where its rule says so."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Ids, Kind, Law, Noise, Proposal, Sampler, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import Row, draw, processed
from specdec_cli.decoding.verification import Rule, match, reject, residual, samplers, verifier
from tests.fakes.drafters import point_masses
from tests.fakes.laws import as_dict
from tests.fakes.runs import GREEDY, PURE, SEEDED, job, plain
from tests.fakes.target import hashed, rows_after

TABLE = hashed(6, seed=11)
CONTEXT = (1, 2, 3)
params = st.sampled_from([GREEDY, SEEDED, PURE, SamplingParams(top_k=3, repeat_penalty=1.5, presence_penalty=0.5)])


def law(*probs: float, first: int = 0) -> Law:
    """A law over ids first, first + 1, ..."""
    return Law(np.arange(first, first + len(probs)), np.array(probs))


def logits(*probs: float) -> Row:
    """A row whose softmax is probs, up to float32."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.array(probs)), dtype=np.float32)


class SetNoise:
    """Noise that says what it is told to: u at every position, and a preference for one id."""

    def __init__(self, u: float, favourite: int = 0) -> None:
        self._u, self._favourite = u, favourite

    def gumbel(self, position: int, ids: Ids) -> npt.NDArray[np.float64]:
        return np.where(ids == self._favourite, 1e6, 0.0)

    def uniform(self, position: int) -> float:
        return self._u


def judge_one(p: Row, q: Law | None, x: int, noise: Noise) -> tuple[int, int | None, Kind]:
    """reject() on one draft token; both rows are p."""
    proposal = Proposal("fake", (x,), (q,), (1.0,), (1.0,))
    verdict = reject(proposal, np.stack([p, p]), CONTEXT, Sampler(PURE, noise))
    return verdict.n_accepted, verdict.next_token, verdict.kind


@settings(derandomize=True, deadline=None)
@given(params, st.lists(st.integers(0, 5), max_size=6), st.booleans(), st.integers(0, 50))
def test_match_emits_the_plain_run_whatever_is_proposed(
    p: SamplingParams, drafted: list[int], invalid_last: bool, seed: int
) -> None:
    own = plain(job(CONTEXT, 8, p), TABLE).tokens
    n_right = seed % 7
    tokens = (*own[:n_right], *drafted)[:6]
    rows = rows_after(TABLE, CONTEXT, tokens)
    if invalid_last:
        tokens = (*tokens, 6)
    verdict = match(point_masses(tokens), rows, CONTEXT, Sampler(p, noise_for(p.seed)))
    emitted = (*tokens[: verdict.n_accepted], verdict.next_token)
    assert emitted == own[: len(emitted)]
    all_accepted = verdict.n_accepted == len(tokens)
    assert verdict.kind is (Kind.BONUS if all_accepted else Kind.RECOVERED)
    assert len(verdict.p) == len(verdict.q) == (len(tokens) if all_accepted else verdict.n_accepted + 1)
    assert all_accepted or tokens[verdict.n_accepted] != own[verdict.n_accepted], "a right token was refused"


@pytest.mark.parametrize("rule", list(Rule))
def test_a_verdict_reports_p_and_q_of_each_judged_token(rule: Rule) -> None:
    rows = rows_after(TABLE, CONTEXT, (4, 5))
    q = (law(0.1, 0.1, 0.1, 0.1, 0.6), None)
    proposal = Proposal("fake", (4, 5), q, (0.6, 1.0), (0.6, math.nan))
    for seed in range(30):
        verdict = verifier(rule)(proposal, rows, CONTEXT, Sampler(PURE, noise_for(seed)))
        n = len(verdict.p)
        assert n == min(verdict.n_accepted + 1, 2)
        assert verdict.q == (0.6, 1.0)[:n]
        assert verdict.p == tuple(processed(rows[i], (), PURE).prob((4, 5)[i]) for i in range(n))


@pytest.mark.parametrize(("u", "accepted"), [(0.0, True), (0.4999, True), (0.5001, False), (1 - 2**-53, False)])
def test_reject_accepts_while_u_q_is_below_p(u: float, accepted: bool) -> None:
    n_accepted, token, kind = judge_one(logits(0.25, 0.75), law(0.5, 0.5), 0, SetNoise(u))
    assert (n_accepted, kind) == ((1, Kind.BONUS) if accepted else (0, Kind.RECOVERED))
    assert token == (0 if accepted else 1), "after a refusal only the residual's token is left"


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
def test_reject_accepts_for_certain_where_p_is_not_below_q(u: float) -> None:
    assert judge_one(logits(0.25, 0.75), law(0.6, 0.4), 1, SetNoise(u))[0] == 1


@pytest.mark.parametrize("u", [0.0, 0.5])
def test_reject_refuses_what_p_or_q_says_cannot_be(u: float) -> None:
    assert judge_one(logits(0.0, 0.5, 0.5), law(0.5, 0.5), 0, SetNoise(u))[0] == 0
    assert judge_one(logits(0.5, 0.5), law(0.0, 1.0), 0, SetNoise(u)) == (0, 0, Kind.RECOVERED)
    assert judge_one(logits(0.5, 0.5), law(1.0, first=1), 0, SetNoise(u)) == (0, 0, Kind.RECOVERED)


@pytest.mark.parametrize("x", [-1, 3, 2**31])
@pytest.mark.parametrize("q", [None, law(0.5, 0.25, 0.25)])
def test_an_id_that_is_no_token_is_refused_for_certain(x: int, q: Law | None) -> None:
    if q is not None:
        q = Law(np.array([0, 1, x]), q.probs)
    proposal = Proposal("fake", (x,), (q,), (1.0,), (1.0,))
    rows = logits(0.25, 0.5, 0.25)[None]
    for rule in Rule:
        verdict = verifier(rule)(proposal, rows, CONTEXT, Sampler(PURE, SetNoise(0.0, favourite=2)))
        assert (verdict.n_accepted, verdict.next_token, verdict.kind) == (0, 2, Kind.RECOVERED)


def test_the_residual_is_what_p_has_more_than_q() -> None:
    assert as_dict(residual(law(0.5, 0.3, 0.2), law(0.6, 0.2, 0.2), 0)) == pytest.approx({1: 1.0})
    assert as_dict(residual(law(0.2, 0.3, 0.5), law(0.6, 0.2, 0.2), 0)) == pytest.approx({1: 0.25, 2: 0.75})
    assert as_dict(residual(law(0.2, 0.3, 0.5), None, 2)) == pytest.approx({0: 0.4, 1: 0.6})
    assert as_dict(residual(law(0.5, 0.5), law(0.5, 0.5, first=1), 1)) == {0: 1.0}
    assert as_dict(residual(law(0.5 + 1e-9, 0.5 - 1e-9), law(0.5, 0.5), 1)) == {0: 1.0}


def test_the_residual_does_not_depend_on_the_order_of_ids() -> None:
    p = Law(np.array([7, 0, 4]), np.array([0.5, 0.3, 0.2]))
    q = Law(np.array([4, 9, 7]), np.array([0.1, 0.5, 0.4]))
    assert as_dict(residual(p, q, 9)) == pytest.approx({7: 0.1 / 0.5, 0: 0.3 / 0.5, 4: 0.1 / 0.5})


def test_a_residual_without_mass_is_p_itself() -> None:
    p = law(0.7, 0.3)
    assert residual(p, p, 0) is p
    assert residual(p, law(0.7 + 1e-16, 0.3 + 1e-16), 0) is p
    assert residual(law(1.0), None, 0).ids.tolist() == [0]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=9), st.lists(st.integers(0, 9), min_size=2, max_size=9))
def test_accepted_and_residual_mass_add_up_to_p(p_parts: list[int], q_parts: list[int]) -> None:
    size = min(len(p_parts), len(q_parts))
    p_all, q_all = np.array(p_parts[:size]) + 0.0, np.array(q_parts[:size]) + 0.0
    if not p_all.sum() or not q_all.sum():
        return
    p_all, q_all = p_all / p_all.sum(), q_all / q_all.sum()
    p = Law(np.flatnonzero(p_all), p_all[p_all > 0])
    q = Law(np.flatnonzero(q_all), q_all[q_all > 0])
    accepted = np.minimum(p_all, q_all)
    rest = residual(p, q, 0)
    refilled = accepted.copy()
    refilled[rest.ids] += (1 - accepted.sum()) * rest.probs
    assert refilled == pytest.approx(p_all, abs=1e-12)


def test_greedy_reject_accepts_exactly_the_arg_max() -> None:
    own = plain(job(CONTEXT, 5), TABLE).tokens
    for n_right in range(4):
        tokens = (*own[:n_right], (own[n_right] + 1) % 6)
        for seed in range(10):
            verdict = reject(
                point_masses(tokens), rows_after(TABLE, CONTEXT, tokens), CONTEXT, Sampler(GREEDY, noise_for(seed))
            )
            assert (verdict.n_accepted, verdict.next_token) == (n_right, own[n_right])


@pytest.mark.parametrize("rule", list(Rule))
def test_nothing_legal_gives_no_token(rule: Rule) -> None:
    nothing = np.full((2, 3), -np.inf, dtype=np.float32)
    for tokens in ((), (1,)):
        verdict = verifier(rule)(point_masses(tokens), nothing, CONTEXT, Sampler(PURE, noise_for(0)))
        assert (verdict.n_accepted, verdict.next_token) == (0, None)


def values(sampler: Sampler) -> list[float]:
    return [*sampler.noise.gumbel(3, np.arange(4)).tolist(), sampler.noise.uniform(3)]


def test_under_match_drafter_and_verifier_share_the_noise_of_the_seed_in_every_round() -> None:
    first, second = samplers(Rule.MATCH, SEEDED, None, 0), samplers(Rule.MATCH, SEEDED, None, 9)
    assert values(first[0]) == values(first[1]) == values(second[0])
    assert values(first[0]) == values(Sampler(SEEDED, noise_for(SEEDED.seed)))


def test_under_reject_every_stream_and_every_round_has_its_own_noise() -> None:
    seen = [
        value for n_round in range(5) for sampler in samplers(Rule.REJECT, SEEDED, None, n_round) for value in values(sampler)
    ]
    assert len(set(seen)) == len(seen)
    again = [
        value for n_round in range(5) for sampler in samplers(Rule.REJECT, SEEDED, None, n_round) for value in values(sampler)
    ]
    assert seen == again


def test_shared_noise_makes_a_like_minded_draft_agree_more_often_than_its_own() -> None:
    p, q = law(0.4, 0.35, 0.25), law(0.35, 0.4, 0.25)
    n = 400
    shared = sum(draw(p, noise_for(seed), 0) == draw(q, noise_for(seed), 0) for seed in range(n))
    own = sum(draw(p, noise_for(seed), 0) == draw(q, noise_for(seed, 1), 0) for seed in range(n))
    assert shared > 0.85 * n > 0.5 * n > own
