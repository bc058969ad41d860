"""The small behaviour that the shared records have."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.decoding.contracts import Law, Proposal, SamplingParams


def test_a_cut_proposal_keeps_all_its_lists_in_step() -> None:
    laws = tuple(Law(np.array([i]), np.ones(1)) for i in range(3))
    whole = Proposal("fake", (4, 5, 6), laws, (0.9, 0.8, 0.7), (0.3, 0.2, 0.1), pass_s=2.0)
    cut = whole.cut(2)
    assert cut == Proposal("fake", (4, 5), laws[:2], (0.9, 0.8), (0.3, 0.2), pass_s=2.0)
    assert whole.cut(0).tokens == ()
    assert whole.cut(3) is whole.cut(9) is whole


def drafted(drafter: str, tokens: tuple[int, ...], *, sampled: bool, n_passes: int = 0) -> Proposal:
    n = len(tokens)
    q = Law(np.array([0]), np.ones(1)) if sampled else None
    return Proposal(drafter, tokens, (q,) * n, (0.9,) * n, (0.5,) * n, pass_s=0.5 * n_passes, n_passes=n_passes)


def test_two_drafts_are_one_proposal_that_still_knows_its_parts() -> None:
    model, copied = drafted("model", (1, 2), sampled=True, n_passes=3), drafted("ngram", (3, 4, 5), sampled=False)
    both = model.followed_by(copied)
    assert (both.drafter, both.tokens, both.pass_s, both.n_passes) == ("model", (1, 2, 3, 4, 5), 1.5, 3)
    assert both.by_drafter == (model, copied)
    assert model.by_drafter == (model,)
    for n in range(6):
        cut = both.cut(n)
        assert cut.tokens == both.tokens[:n] == tuple(token for part in cut.by_drafter for token in part.tokens)
        assert [part.n_passes for part in cut.by_drafter] == [3, 0]


def test_who_did_nothing_is_no_part_of_a_proposal() -> None:
    some, none = drafted("model", (1,), sampled=True, n_passes=1), drafted("ngram", (), sampled=False)
    looked = drafted("model", (), sampled=True, n_passes=1)
    assert some.followed_by(none) is none.followed_by(some) is some
    assert [part.drafter for part in drafted("ngram", (1,), sampled=False).followed_by(looked).by_drafter] == ["ngram", "model"]


def test_a_proposal_knows_up_to_where_it_was_left_to_chance() -> None:
    model, copied = drafted("model", (1, 2), sampled=True), drafted("ngram", (3, 4, 5), sampled=False)
    assert model.followed_by(copied).n_sampled == 2
    assert copied.followed_by(model).n_sampled == 5
    assert (copied.n_sampled, Proposal("none").n_sampled) == (0, 0)


def test_the_probability_of_a_token_outside_a_law_is_zero() -> None:
    law = Law(np.array([7, 2]), np.array([0.75, 0.25]))
    assert [law.prob(token) for token in (2, 7, 3, -1)] == [0.25, 0.75, 0.0, 0.0]


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (-1.0, True), (1e-9, False), (0.8, False)])
def test_a_temperature_of_zero_or_less_is_greedy(temperature: float, greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).greedy is greedy


@pytest.mark.parametrize(
    ("params", "penalised"),
    [
        (SamplingParams(), False),
        (SamplingParams(repeat_penalty=1.1), True),
        (SamplingParams(presence_penalty=-0.1), True),
        (SamplingParams(frequency_penalty=0.1, repeat_last_n=-1), True),
        (SamplingParams(repeat_penalty=1.1, frequency_penalty=0.1, repeat_last_n=0), False),
    ],
)
def test_penalties_need_a_strength_and_a_window(params: SamplingParams, penalised: bool) -> None:
    assert params.penalised is penalised
