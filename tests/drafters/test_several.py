"""Several drafters as one: all offer, one drafts, and none loses track of the text meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Drafter, Kind, Offer, PassResult, Plan, Proposal, Sampler, Verdict
from specdec_cli.decoding.noise import noise_for
from specdec_cli.drafters import MODEL, NGRAM
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from tests.fakes.constraint import FakeConstraint, hashed_grammar
from tests.fakes.drafters import FakeDrafter, PassingOn, point_masses
from tests.fakes.runs import SEEDED, ScriptedGovernor, job, run
from tests.fakes.target import TableTarget, hashed

N_VOCAB = 5
DRAFT = hashed(N_VOCAB, seed=3)
SAMPLER = Sampler(SEEDED, noise_for(1))


def model_drafter() -> ModelDrafter:
    model = TableTarget(DRAFT, n_ctx=400, max_piece=7)
    return ModelDrafter(model, N_VOCAB, np.array([], dtype=np.int64), frozenset())


class Constant(FakeDrafter):
    """Proposes one token again and again, n times at the most; its name is its token."""

    def __init__(self, token: int, n: int = 99) -> None:
        super().__init__()
        self.name = str(token)
        self._token, self._n = token, n

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        return replace(point_masses([self._token] * min(plan.n_max, self._n)), drafter=self.name)


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


# One drafts on behind another.


def test_another_drafts_on_behind_the_one_that_the_plan_names() -> None:
    parts, reins = [Constant(0, 2), Constant(1, 5)], PassingOn()
    several = SeveralDrafters(parts)
    several.offers([1, 2], 0)
    proposal = several.propose([1, 2], 2, Plan(6, 4, 0.1, "0", reins=reins), SAMPLER)
    assert proposal.tokens == (0, 0, 1, 1, 1, 1)
    assert [part.drafter for part in proposal.by_drafter] == ["0", "1"]
    assert parts[1].seen == (1, 2, 0, 0)
    assert parts[1].plans == [Plan(4, 2, 0.1, "1", reins=reins)]
    assert [(asked.tokens, list(offers)) for asked, offers in reins.asked] == [((0, 0), ["1"])]


def test_nobody_drafts_on_where_the_draft_is_as_long_as_it_may_be_or_nobody_decides() -> None:
    for plan in (Plan(2, drafter="0", reins=PassingOn()), Plan(6, drafter="0")):
        assert SeveralDrafters([Constant(0, 2), Constant(1, 5)]).propose([1, 2], 0, plan, SAMPLER).tokens == (0, 0)


def test_nobody_drafts_on_behind_the_end_of_the_text() -> None:
    several = SeveralDrafters([Constant(0, 2), Constant(1, 5)], frozenset({0}))
    assert several.propose([1, 2], 0, Plan(6, drafter="0", reins=PassingOn()), SAMPLER).tokens == (0, 0)


def test_what_is_trimmed_off_is_not_what_another_drafts_on_behind() -> None:
    parts = [Constant(0, 3), Constant(1, 2)]
    several = SeveralDrafters(parts)
    assert several.propose([1, 2], 0, Plan(6, drafter="0", reins=PassingOn(1)), SAMPLER).tokens == (0, 1, 1)
    assert parts[1].seen == (1, 2, 0)


def test_all_that_had_a_part_are_told_what_came_of_it() -> None:
    parts = [Constant(0, 2), Constant(1, 1), Constant(2, 1)]
    several = SeveralDrafters(parts)
    several.propose([1, 2], 0, Plan(3, drafter="0", reins=PassingOn()), SAMPLER)
    several.observe(PassResult(np.zeros((4, N_VOCAB), dtype=np.float32), 0.1, 4), Verdict(1, 3, Kind.RECOVERED))
    assert [len(part.verdicts) for part in parts] == [1, 1, 0]


def test_a_grammar_holds_for_who_drafts_on_too() -> None:
    grammar = hashed_grammar(N_VOCAB, 1, length=6)
    own = FakeConstraint(grammar)
    sampler = Sampler(SEEDED, noise_for(1), own)
    several = SeveralDrafters([model_drafter(), NgramDrafter()])
    context = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]

    for drafter in (MODEL, NGRAM):
        tokens = several.propose(context, 0, Plan(8, drafter=drafter, reins=PassingOn(1)), sampler).tokens
        assert all(token in grammar(tokens[:i]) for i, token in enumerate(tokens))
        assert len(tokens) > 1
    assert own.taken == ()


@pytest.mark.parametrize("first", [MODEL, NGRAM])
def test_drafted_tokens_that_were_refused_are_forgotten(first: str) -> None:
    several = SeveralDrafters([model_drafter(), NgramDrafter()])
    context, changed = [0, 1, 2, 3, 0, 1, 2], 0
    for i in range(12):
        several.offers(context, changed)
        proposal = several.propose(context, len(context), Plan(6, drafter=first, reins=PassingOn()), SAMPLER)
        changed = len(context)
        context = [*context, *proposal.tokens[: i % 3], (i * i) % N_VOCAB]
        fresh = NgramDrafter()
        assert several.offers(context, changed).get(NGRAM) == fresh.offers(context, 0).get(NGRAM)
        changed = len(context)


@pytest.mark.parametrize("first", [MODEL, NGRAM])
def test_a_target_that_drafts_for_itself_is_accepted_whole_whoever_drafts_on(first: str) -> None:
    """The copied tokens may be wrong; those that the model drew behind accepted ones may not."""
    table = hashed(N_VOCAB, seed=1, order=2)

    class Mixing(ScriptedGovernor):
        def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:
            plan = super().plan(room, left, offers)
            return replace(plan, drafter=first if first in offers else MODEL, reins=PassingOn(2))

    twin = ModelDrafter(TableTarget(table, n_ctx=400), N_VOCAB, np.array([], dtype=np.int64), frozenset())
    outcome = run(
        job(n_predict=45, params=SEEDED), TableTarget(table), SeveralDrafters([twin, NgramDrafter()]), Mixing([6] * 45)
    )
    n_mixed = 0
    for done in outcome.rounds:
        start = 0
        for part in done.proposal.by_drafter:
            if part.drafter == MODEL and done.n_accepted >= start:
                assert done.n_accepted >= start + len(part)
            start += len(part)
        n_mixed += len(done.proposal.parts) > 1 and done.proposal.drafter == first
    assert n_mixed > 0
