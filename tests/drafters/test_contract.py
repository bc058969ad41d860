"""What every drafter owes the loop, whatever it drafts from; run on the fakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Drafter, PassAborted, Plan, Proposal, Sampler, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters import MODEL, NGRAM
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from tests.docs import example
from tests.fakes.constraint import FakeConstraint, hashed_grammar
from tests.fakes.counting import CountingList
from tests.fakes.drafters import PassingOn
from tests.fakes.runs import GREEDY, PURE, SEEDED, ScriptedGovernor, job, plain, run
from tests.fakes.target import Table, TableTarget, blended, hashed

N_VOCAB = 5
TABLE = hashed(N_VOCAB, seed=1, order=2)  # it repeats itself, so that an n-gram finds something
DRAFT = blended(TABLE, hashed(N_VOCAB, seed=2), 0.3)


def model_drafter(table: Table = DRAFT, *, abort_at: int | None = None) -> Drafter:
    model = TableTarget(table, n_ctx=200, max_piece=7, abort_at=abort_at)
    return ModelDrafter(model, N_VOCAB, np.array([], dtype=np.int64), frozenset())


class Mixed(SeveralDrafters):
    """Two as one, of which the first drafts a few tokens in each round, and the second one drafts on."""

    def __init__(self, first: Drafter, second: Drafter) -> None:
        super().__init__([first, second])
        self._first = first.name

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        return super().propose(context, changed, replace(plan, drafter=self._first, reins=PassingOn(3)), sampler)


MAKERS: dict[str, Callable[[], Drafter]] = {
    MODEL: model_drafter,
    NGRAM: NgramDrafter,
    "model,ngram": lambda: Mixed(model_drafter(), NgramDrafter()),
    "ngram,model": lambda: Mixed(NgramDrafter(), model_drafter()),
    example.NAME: example.documented_drafter,
}
every_drafter = pytest.mark.parametrize("name", MAKERS)
PARAMS = [GREEDY, SEEDED, PURE]
every_law = pytest.mark.parametrize("params", PARAMS, ids=["greedy", "seeded", "pure"])

contexts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=30)
plans = st.builds(Plan, n_max=st.integers(1, 9), n_min=st.integers(0, 9), p_min=st.sampled_from([0.0, 0.4, 0.8]))
samplers = st.builds(lambda params, seed: Sampler(params, noise_for(seed)), st.sampled_from(PARAMS), st.integers(0, 99))


def comparable(proposal: Proposal) -> tuple[object, ...]:
    """All that a proposal says but its time; NaN made equal to itself."""
    laws = [None if q is None else (q.ids.tolist(), q.probs.tolist()) for q in proposal.q]
    probs = [None if math.isnan(prob) else prob for prob in proposal.prob]
    parts = [(part.drafter, part.tokens) for part in proposal.parts]
    return proposal.drafter, proposal.tokens, laws, proposal.peak, probs, proposal.parents, parts


@every_drafter
@settings(derandomize=True, deadline=None, max_examples=60)
@given(context=contexts, plan=plans, sampler=samplers)
def test_a_proposal_is_well_made(name: str, context: list[int], plan: Plan, sampler: Sampler) -> None:
    drafter, before = MAKERS[name](), list(context)
    proposal = drafter.propose(context, 0, plan, sampler)
    assert context == before
    assert drafter.name == name
    assert proposal.drafter in name.split(",")
    assert tuple(token for part in proposal.by_drafter for token in part.tokens) == proposal.tokens
    assert proposal.parents is None
    assert proposal.pass_s >= 0
    assert len(proposal.tokens) == len(proposal.q) == len(proposal.peak) == len(proposal.prob) <= plan.n_max
    assert all(isinstance(token, int) and 0 <= token < N_VOCAB for token in proposal.tokens)
    for token, q, peak, prob in zip(proposal.tokens, proposal.q, proposal.peak, proposal.prob, strict=True):
        assert 0 < peak <= 1
        if q is None:
            assert math.isnan(prob)
        else:
            assert q.probs.sum() == pytest.approx(1)
            assert 0 < prob == q.prob(token) <= peak == q.probs.max()


steps = st.lists(
    st.tuples(
        st.sampled_from(["grow", "grow", "grow", "follow", "edit", "settle", "anew"]),
        st.integers(0, 99),
        st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=9),
        plans,
        samplers,
    ),
    max_size=10,
)


@every_drafter
@settings(derandomize=True, deadline=None, max_examples=60)
@given(first=contexts, steps=steps)
def test_a_proposal_depends_on_the_context_alone_not_on_what_was_drafted_before(
    name: str, first: list[int], steps: Sequence[tuple[str, int, list[int], Plan, Sampler]]
) -> None:
    drafter, context, changed = MAKERS[name](), first, 0
    for kind, where, tokens, plan, sampler in steps:
        proposal = drafter.propose(context, changed, plan, sampler)
        assert comparable(proposal) == comparable(MAKERS[name]().propose(context, 0, plan, sampler))
        changed = len(context)
        if kind == "follow":  # part of the draft was accepted
            context = [*context, *proposal.tokens[: where % (len(proposal) + 1)], tokens[0]]
        elif kind in ("grow", "settle"):
            context = [*context, *tokens]
        elif kind == "edit":
            changed = where % (len(context) + 1)
            context = [*context[:changed], *tokens]
        elif kind == "anew":
            context, changed = tokens, 0
        if kind == "settle":
            changed = where % (changed + 1)
            drafter.settle(changed)


@every_drafter
@every_law
def test_a_run_says_what_the_plain_run_says(name: str, params: SamplingParams) -> None:
    for seed in range(4):
        asked = job(n_predict=30, params=replace(params, seed=seed))
        for lengths in ([1] * 30, [6] * 30, [0, 4, 0, 0, 2, 9, 1] * 5):
            outcome = run(asked, TableTarget(TABLE), MAKERS[name](), ScriptedGovernor(lengths))
            assert outcome.said == plain(asked, TABLE).said


def n_read_in_a_round(drafter: Drafter, n_tokens: int) -> int:
    """Tokens that a drafter reads of a context of n_tokens that grew by three."""
    context = CountingList([(i * i) % N_VOCAB for i in range(n_tokens)])
    plan, sampler = Plan(4), Sampler(SEEDED, noise_for(0))
    drafter.propose(context, 0, plan, sampler)
    context.tokens += [1, 2, 3]
    context.n_read = 0
    drafter.propose(context, n_tokens, plan, sampler)
    return context.n_read


@every_drafter
def test_the_work_of_a_round_does_not_grow_with_the_context(name: str) -> None:
    assert n_read_in_a_round(MAKERS[name](), 190) == n_read_in_a_round(MAKERS[name](), 50) < 100


@every_drafter
def test_a_drafter_is_of_use(name: str) -> None:
    outcome = run(job(n_predict=40), TableTarget(TABLE), MAKERS[name](), 4)
    assert len(outcome.rounds) < 30


@every_drafter
def test_turns_of_a_chat_and_a_regeneration_need_no_new_drafter(name: str) -> None:
    drafter, target = MAKERS[name](), TableTarget(TABLE)
    context: tuple[int, ...] = (1, 2, 3)
    for turn in range(4):
        for seed in (turn, turn + 50):  # the second is a regeneration: the same prompt again
            asked = job(context, 6, replace(SEEDED, seed=seed))
            target.keep(min(len(context) - 1, target.n_cached))
            outcome = run(asked, target, drafter, 3)
            assert outcome.said == plain(asked, TABLE).said
        context = (*context, *outcome.tokens, turn, 1)


@every_drafter
@every_law
def test_a_draft_keeps_to_the_grammar_and_leaves_its_state_alone(name: str, params: SamplingParams) -> None:
    grammar = hashed_grammar(N_VOCAB, 1, length=4)
    for seed in range(10):
        own = FakeConstraint(grammar)
        sampler = Sampler(params, noise_for(seed), own)
        tokens = MAKERS[name]().propose([1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2], 0, Plan(8), sampler).tokens
        assert all(token in grammar(tokens[:i]) for i, token in enumerate(tokens))
        assert len(tokens) <= 4
        assert own.taken == ()


@every_drafter
@pytest.mark.parametrize("rule", list(Rule))
def test_a_run_with_a_grammar_ends_where_nothing_may_follow(name: str, rule: Rule) -> None:
    grammar = hashed_grammar(N_VOCAB, 2, length=12)
    asked = job(n_predict=-1, params=PURE, rule=rule, constraint=FakeConstraint(grammar))
    outcome = run(asked, TableTarget(TABLE), MAKERS[name](), 5)
    assert len(outcome.tokens) == 12


@pytest.mark.parametrize("at", range(8))
def test_an_aborted_proposal_can_be_asked_for_again(at: int) -> None:
    """Only a drafter with passes of its own can be aborted."""
    context = [i % N_VOCAB for i in range(17)]
    drafter, sampler = model_drafter(abort_at=at), Sampler(SEEDED, noise_for(1))
    proposal = None
    for _ in range(2):
        try:
            proposal = drafter.propose(context, 0, Plan(6), sampler)
        except PassAborted:
            drafter.settle(len(context) - 1)
    assert proposal is not None
    assert comparable(proposal) == comparable(model_drafter().propose(context, 0, Plan(6), sampler))
