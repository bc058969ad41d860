"""Several drafters as one: all offer, one drafts, and none loses track of the text meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Drafter, Kind, PassResult, Plan, Proposal, Sampler, Verdict
from specdec_cli.decoding.noise import noise_for
from specdec_cli.drafters import MODEL, NGRAM
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from tests.fakes.drafters import FakeDrafter, point_masses
from tests.fakes.runs import SEEDED
from tests.fakes.target import TableTarget, hashed

N_VOCAB = 5
DRAFT = hashed(N_VOCAB, seed=3)
SAMPLER = Sampler(SEEDED, noise_for(1))


def model_drafter() -> ModelDrafter:
    model = TableTarget(DRAFT, n_ctx=400, max_piece=7)
    return ModelDrafter(model, N_VOCAB, np.array([], dtype=np.int64), frozenset())


class Constant(FakeDrafter):
    """Proposes one token again and again; its name is its token."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self.name = str(token)
        self._token = token

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        return point_masses([self._token] * plan.n_max)


def said(proposal: Proposal) -> tuple[object, ...]:
    probs = tuple(None if math.isnan(prob) else prob for prob in proposal.prob)
    return proposal.drafter, proposal.tokens, proposal.peak, probs


def test_all_offer_under_their_own_names() -> None:
    several = SeveralDrafters([model_drafter(), NgramDrafter()])
    assert several.name == "model,ngram"
    assert set(several.offers([1, 2, 3], 0)) == {MODEL}
    assert set(several.offers([1, 2, 3, 1, 2], 3)) == {MODEL, NGRAM}


@pytest.mark.parametrize("name", ["0", "1"])
def test_the_plan_names_the_one_that_drafts(name: str) -> None:
    parts = [Constant(0), Constant(1)]
    several = SeveralDrafters(parts)
    several.offers([1, 2], 0)
    assert several.propose([1, 2], 2, Plan(3, drafter=name), SAMPLER).tokens == (int(name),) * 3
    assert [len(part.plans) for part in parts] == [int(name == "0"), int(name == "1")]


def test_what_came_of_a_draft_is_told_to_the_one_that_drafted() -> None:
    parts = [Constant(0), Constant(1)]
    several = SeveralDrafters(parts)
    several.offers([1, 2], 0)
    several.propose([1, 2], 2, Plan(1, drafter="1"), SAMPLER)
    several.observe(PassResult(np.zeros((2, N_VOCAB), dtype=np.float32), 0.1, 2), Verdict(1, 3, Kind.BONUS))
    assert [len(part.verdicts) for part in parts] == [0, 1]


def test_all_are_settled() -> None:
    parts = [Constant(0), Constant(1)]
    SeveralDrafters(parts).settle(4)
    assert [part.settled for part in parts] == [[4], [4]]


steps = st.lists(
    st.tuples(
        st.sampled_from(["grow", "edit", "settle"]),
        st.integers(0, 99),
        st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=9),
        st.sampled_from([MODEL, NGRAM, ""]),
    ),
    min_size=1,
    max_size=14,
)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(steps)
def test_each_drafts_what_a_fresh_one_would_whoever_drafted_before(
    steps: list[tuple[str, int, list[int], str]],
) -> None:
    """An empty name: nobody drafts that round, and all are asked for offers alone."""
    several = SeveralDrafters([model_drafter(), NgramDrafter()])
    context, changed = [0, 1, 2, 0, 1], 0
    for kind, where, tokens, name in steps:
        offers = several.offers(context, changed)
        assert offers.get(NGRAM) == NgramDrafter().offers(context, 0).get(NGRAM) or NGRAM not in offers
        assert offers[MODEL].n_behind <= len(context)
        if name in offers:
            fresh: Drafter = model_drafter() if name == MODEL else NgramDrafter()
            drafted = several.propose(context, len(context), Plan(4, drafter=name), SAMPLER)
            assert said(drafted) == said(fresh.propose(context, 0, Plan(4), SAMPLER))
        changed = len(context)
        if kind == "edit":
            changed = where % (len(context) + 1)
            context = [*context[:changed], *tokens]
        else:
            context = [*context, *tokens]
        if kind == "settle":
            changed = where % (changed + 1)
            several.settle(changed)


def test_a_model_that_rested_says_how_far_it_is_behind() -> None:
    several = SeveralDrafters([model_drafter(), NgramDrafter()])
    context = [0, 1, 2, 3]
    several.offers(context, 0)
    several.propose(context, 4, Plan(1, drafter=MODEL), SAMPLER)
    for i in range(10):
        changed, context = len(context), [*context, i % N_VOCAB]
        behind = several.offers(context, changed)[MODEL].n_behind
        assert behind == i  # the last token belongs to the draft itself
