"""The model drafter keeps its cache in line with the context, decodes nothing twice, and draws from an honest q."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from specdec_cli.decoding.contracts import Ids, PassAborted, Plan, Proposal, Sampler, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import certainty, processed
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.drafters.model import ModelDrafter
from tests.fakes.constraint import FakeConstraint, hashed_grammar
from tests.fakes.drafters import Drawing
from tests.fakes.runs import GREEDY, PURE, SEEDED, ScriptedGovernor, job, plain, run
from tests.fakes.target import Table, TableTarget, blended, hashed, leaning

N_VOCAB = 8
TABLE = hashed(N_VOCAB, seed=1)
LIKE = blended(TABLE, hashed(N_VOCAB, seed=2), 0.4)
NONE: Ids = np.array([], dtype=np.int64)


def over(
    model: TableTarget, *, n_shared: int = N_VOCAB, undraftable: Sequence[int] = (), ends: Sequence[int] = ()
) -> ModelDrafter:
    return ModelDrafter(model, n_shared, np.array(undraftable, dtype=np.int64), frozenset(ends))


def sampler(params: SamplingParams = GREEDY, constraint: FakeConstraint | None = None) -> Sampler:
    return Sampler(params, noise_for(params.seed), constraint)


def greedy_after(table: Table, context: Sequence[int], n: int) -> tuple[int, ...]:
    return plain(job(context, n, n_ctx=10_000), table).tokens


# The cache


@pytest.mark.parametrize("params", [GREEDY, SEEDED, PURE], ids=["greedy", "seeded", "pure"])
@pytest.mark.parametrize("table", [TABLE, LIKE, hashed(N_VOCAB, seed=3)], ids=["itself", "alike", "unlike"])
@pytest.mark.parametrize("n_prompt", [1, 5, 16, 17, 18, 30])
def test_no_token_is_decoded_twice(params: SamplingParams, table: Table, n_prompt: int) -> None:
    model = TableTarget(table, n_ctx=80, max_piece=16)
    asked = job([i % 5 for i in range(n_prompt)], 30, params, n_ctx=80)
    outcome = run(asked, TableTarget(TABLE, n_ctx=80), over(model), ScriptedGovernor([3, 0, 4, 1, 0, 0, 0, 5, 2, 8] * 3))
    assert outcome.said == plain(asked, TABLE).said
    assert max(model.n_decoded.values()) == 1


def test_it_passes_the_prompt_in_pieces_and_then_only_what_is_new() -> None:
    model = TableTarget(TABLE, n_ctx=80, max_piece=8)
    prompt = [i % 5 for i in range(20)]
    over(model).propose(prompt, 0, Plan(3), sampler())
    first, second, third = greedy_after(TABLE, prompt, 3)
    assert model.passes == [tuple(prompt[:8]), tuple(prompt[8:16]), tuple(prompt[16:19]), (prompt[19],), (first,), (second,)]
    assert model.cached == [*prompt, first, second], f"{third} was drafted, and not decoded"


@pytest.mark.parametrize("n_accepted", [0, 1, 2, 3])
def test_after_any_acceptance_it_keeps_what_stands_and_decodes_the_rest_in_one_pass(n_accepted: int) -> None:
    model = TableTarget(TABLE)
    drafter, context = over(model), [1, 2, 3]
    tokens = drafter.propose(context, 0, Plan(3), sampler()).tokens
    corrected = (tokens[n_accepted] + 1) % N_VOCAB if n_accepted < 3 else 7
    after = [*context, *tokens[:n_accepted], corrected]
    model.passes.clear()
    again = drafter.propose(after, len(context), Plan(1), sampler())
    assert model.passes == [(*tokens[2:n_accepted], corrected)], "the last accepted token was not decoded before"
    assert model.cached == after
    assert again.tokens == greedy_after(TABLE, after, 1)


def test_rounds_that_it_sat_out_are_caught_up_with_in_one_pass() -> None:
    model = TableTarget(TABLE)
    drafter = over(model)
    drafter.propose([1, 2, 3], 0, Plan(1), sampler())
    model.passes.clear()
    context = [1, 2, 3, 7, 6, 5, 4]
    assert drafter.propose(context, 3, Plan(1), sampler()).tokens == greedy_after(TABLE, context, 1)
    assert model.passes == [(7, 6, 5, 4)]


@pytest.mark.parametrize("max_piece", [1, 2, 5, 16])
@pytest.mark.parametrize("n_new", [1, 3, 15, 16, 17, 40])
def test_catching_up_never_passes_more_than_fits(n_new: int, max_piece: int) -> None:
    model = TableTarget(TABLE, n_ctx=80, max_pass=1, max_piece=max_piece)
    drafter = over(model)
    drafter.propose([1, 2, 3], 0, Plan(1), sampler())
    context = [1, 2, 3, *(i % 7 for i in range(n_new))]
    assert drafter.propose(context, 3, Plan(2), sampler()).tokens == greedy_after(TABLE, context, 2)
    assert max(model.n_decoded.values()) == 1


@pytest.mark.parametrize("changed", range(8))
def test_an_edited_context_is_decoded_from_the_edit_on(changed: int) -> None:
    model = TableTarget(TABLE)
    drafter, before = over(model), [1, 2, 3, 4, 5, 6, 7, 0]
    drafter.propose(before, 0, Plan(2), sampler())
    model.passes.clear()
    context = [*before[:changed], (before[changed] + 1) % N_VOCAB, 3]
    assert drafter.propose(context, changed, Plan(1), sampler()).tokens == greedy_after(TABLE, context, 1)
    assert sum(len(tokens) for tokens in model.passes) == 2
    assert model.cached == context


def test_a_new_run_over_the_same_text_decodes_one_token_at_most() -> None:
    """A run that starts anew says that everything may have changed; the cache knows better."""
    model = TableTarget(TABLE)
    drafter, context = over(model), [1, 2, 3, 4, 5]
    drafter.propose(context, 0, Plan(3), sampler())
    drafter.settle(4)
    model.passes.clear()
    drafter.propose([*context, 6], 0, Plan(1), sampler())
    assert model.passes == [(5, 6)]


@pytest.mark.parametrize("left_over", [0, 1])
@pytest.mark.parametrize("at", range(6))
def test_an_interruption_in_the_middle_of_a_draft_costs_nothing_that_was_decoded(at: int, left_over: int) -> None:
    context = [i % 5 for i in range(20)]
    model = TableTarget(TABLE, max_piece=8, abort_at=at, left_over=left_over)
    drafter = over(model)
    with pytest.raises(PassAborted):
        drafter.propose(context, 0, Plan(3), sampler())
    drafter.settle(len(context) - 1)
    assert model.cached == [*context, 9][: model.n_cached]
    assert model.n_cached <= len(context) - 1
    assert drafter.propose(context, 0, Plan(3), sampler()).tokens == greedy_after(TABLE, context, 3)
    assert max(count for prefix, count in model.n_decoded.items() if len(prefix) < len(context)) == 1


@pytest.mark.parametrize("n", [0, 1, 4, 6, 9])
def test_settling_truncates_the_cache(n: int) -> None:
    model = TableTarget(TABLE)
    drafter = over(model)
    drafter.propose([1, 2, 3, 4], 0, Plan(3), sampler())
    n_before = model.n_cached
    drafter.settle(n)
    assert model.n_cached == min(n, n_before)


@pytest.mark.parametrize("n_ctx", range(5, 14))
def test_a_draft_with_a_short_context_begins_anew_with_the_last_tokens(n_ctx: int) -> None:
    near = hashed(N_VOCAB, seed=1, order=2)  # sees two tokens, so what was left out makes no difference
    asked = job([1, 2, 3, 4, 5], 20)
    model = TableTarget(near, n_ctx=n_ctx)
    outcome = run(asked, TableTarget(near), over(model), 4)
    assert outcome.said == plain(asked, near).said
    assert model.n_cached <= n_ctx
    assert all(done.n_drafted > 0 and done.n_accepted == done.n_drafted for done in outcome.rounds[:-1])


@pytest.mark.parametrize(("window", "n_fed"), [(None, 39), (39, 39), (38, 38), (17, 17), (16, 16), (4, 4)])
def test_it_catches_up_on_no_more_than_the_window(window: int | None, n_fed: int) -> None:
    near = hashed(N_VOCAB, seed=1, order=2)
    model, context = TableTarget(near, n_ctx=80), [i % 5 for i in range(40)]
    drafter = over(model)
    proposal = drafter.propose(context, 0, Plan(3, window=window), sampler())
    assert proposal.tokens == greedy_after(near, context, 3)
    assert (proposal.n_fed, model.n_cached) == (n_fed, n_fed + 3)
    # From there on it goes on as ever, and decodes nothing twice.
    longer = [*context, *proposal.tokens, 6]
    again = drafter.propose(longer, len(context), Plan(2, window=window), sampler())
    assert again.tokens == greedy_after(near, longer, 2)
    assert again.n_fed == 0
    assert max(model.n_decoded.values()) == 1


def test_after_a_window_a_shorter_context_is_passed_from_its_beginning() -> None:
    near = hashed(N_VOCAB, seed=1, order=2)
    model, context = TableTarget(near, n_ctx=80), [i % 5 for i in range(40)]
    drafter = over(model)
    drafter.propose(context, 0, Plan(3, window=8), sampler())
    for other in ([1, 2, 3], [6] * 36):
        assert drafter.propose(other, 0, Plan(2), sampler()).tokens == greedy_after(near, other, 2)
        assert model.cached[: len(other)] == other


def test_settling_before_the_window_empties_the_cache() -> None:
    model = TableTarget(TABLE, n_ctx=80)
    drafter = over(model)
    drafter.propose([i % 5 for i in range(40)], 0, Plan(3, window=8), sampler())
    drafter.settle(10)
    assert model.n_cached == 0


def test_a_token_that_the_model_lacks_is_passed_as_its_stand_in() -> None:
    model = TableTarget(hashed(6, seed=1))
    drafter = ModelDrafter(model, 6, NONE, frozenset(), stand_in=4)
    context = [1, 7, 3, 6]
    drafter.propose(context, 0, Plan(1), sampler())
    assert model.cached == [1, 4, 3, 4]
    model.passes.clear()
    drafter.propose([*context, 7, 2], 0, Plan(1), sampler())
    assert model.passes == [(4, 2)], "the context was known by its own tokens"


@pytest.mark.parametrize("params", [GREEDY, SEEDED, replace(PURE, repeat_penalty=1.5)])
def test_a_model_with_fewer_tokens_than_its_target_leaves_the_text_as_it_is(params: SamplingParams) -> None:
    asked = job([7, 1, 2], 30, params)
    model = TableTarget(hashed(6, seed=1))
    outcome = run(asked, TableTarget(TABLE), ModelDrafter(model, 5, np.array([2]), frozenset(), stand_in=0), 4)
    assert outcome.said == plain(asked, TABLE).said
    assert {6, 7} & set(outcome.tokens), "the target does say what the model lacks"
    assert {token for done in outcome.rounds for token in done.proposal.tokens} <= {0, 1, 3, 4}


# What it drafts


@pytest.mark.parametrize("params", [GREEDY, SEEDED, PURE, replace(PURE, seed=3, presence_penalty=0.7)])
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_a_model_that_drafts_for_itself_is_always_right(params: SamplingParams, k: int) -> None:
    asked = job(n_predict=30, params=params)
    outcome = run(asked, TableTarget(TABLE), over(TableTarget(TABLE)), k)
    assert outcome.said == plain(asked, TABLE).said
    assert all(done.n_accepted == done.n_drafted == min(k, 29 - done.position + 3) for done in outcome.rounds)


def test_under_reject_a_model_that_drafts_for_itself_is_always_right_too() -> None:
    for seed in range(10):
        asked = job(n_predict=20, params=replace(PURE, seed=seed), rule=Rule.REJECT)
        outcome = run(asked, TableTarget(TABLE), over(TableTarget(TABLE)), 4)
        assert all(done.n_accepted == done.n_drafted for done in outcome.rounds)


def proposals(drafter: ModelDrafter, params: SamplingParams, n: int = 40) -> list[Proposal]:
    """Drafts of three tokens with n seeds."""
    context = [1, 2, 3]
    return [drafter.propose(context, 3 if seed else 0, Plan(3), sampler(replace(params, seed=seed))) for seed in range(n)]


@pytest.mark.parametrize("params", [PURE, SamplingParams(top_k=3), GREEDY])
def test_ids_that_mean_something_else_or_lie_past_the_shared_ones_are_never_drafted(params: SamplingParams) -> None:
    favourite = leaning(TABLE, {3: 6, 4: 1, 5: 7}, by=4.0)
    drafted = proposals(over(TableTarget(favourite), n_shared=6, undraftable=[1, 4]), params)
    assert {token for proposal in drafted for token in proposal.tokens} <= {0, 2, 3, 5}
    for proposal in drafted:
        for i, q in enumerate(proposal.q):
            row = favourite((1, 2, 3, *proposal.tokens[:i])).copy()[:6]
            row[[1, 4]] = -np.inf
            expected = processed(row, (), params)
            if q is not None:
                assert q.probs.sum() == pytest.approx(1)
                assert (q.ids.tolist(), q.probs.tolist()) == (expected.ids.tolist(), expected.probs.tolist())
            else:
                assert proposal.tokens[i] == int(row.argmax())


def test_nothing_is_drafted_where_every_id_is_masked() -> None:
    drafter = over(TableTarget(TABLE), n_shared=2, undraftable=[0, 1])
    for params in (GREEDY, PURE, SEEDED):
        assert drafter.propose([1, 2, 3], 0, Plan(3), sampler(params)).tokens == ()


def test_peak_and_prob_are_those_of_q() -> None:
    for proposal in proposals(over(TableTarget(TABLE)), PURE):
        assert len(proposal) == len(proposal.q) == len(proposal.peak) == len(proposal.prob) == 3
        for token, q, peak, prob in zip(proposal.tokens, proposal.q, proposal.peak, proposal.prob, strict=True):
            assert q is not None
            assert (peak, prob) == (q.probs.max(), q.prob(token))


def test_a_greedy_draft_is_made_of_point_masses() -> None:
    proposal = over(TableTarget(TABLE)).propose([1, 2, 3], 0, Plan(3), sampler())
    assert (proposal.q, proposal.peak) == ((None,) * 3, (1.0,) * 3)
    assert all(math.isnan(prob) for prob in proposal.prob)


@pytest.mark.parametrize("params", [GREEDY, PURE], ids=["greedy", "pure"])
@pytest.mark.parametrize("n_min", [0, 1, 2, 5])
@pytest.mark.parametrize("p_min", [0.3, 0.5, 0.7, 1.0])
def test_it_stops_before_a_flat_place_but_not_before_its_minimum(p_min: float, n_min: int, params: SamplingParams) -> None:
    context = (1, 2, 3)
    endless = over(TableTarget(TABLE)).propose(context, 0, Plan(6), sampler(params)).tokens
    peaks = [certainty(TABLE((*context, *endless[:i]))) for i in range(6)]
    expected = next((i for i, peak in enumerate(peaks) if peak < p_min and i >= n_min), 6)
    proposal = over(TableTarget(TABLE)).propose(context, 0, Plan(6, n_min, p_min), sampler(params))
    assert proposal.tokens == endless[:expected]
    assert proposal.peak == pytest.approx(peaks[:expected])


def test_a_drawn_token_stays_however_improbable_it_was() -> None:
    """Only the peak may stop a draft: of q = (0.7, 0.3) the second token is drafted at p_min 0.6 as often as it is drawn."""
    row = np.log(np.array([0.7, 0.3], dtype=np.float32))
    model = TableTarget(lambda prefix: row)
    drafter = ModelDrafter(model, 2, NONE, frozenset())
    drafts = [drafter.propose([0], 0, Plan(1, 0, 0.6), sampler(replace(PURE, seed=seed))).tokens for seed in range(200)]
    assert {len(tokens) for tokens in drafts} == {1}
    assert 40 < drafts.count((1,)) < 80


def test_it_draws_with_the_noise_it_is_given() -> None:
    params = replace(PURE, seed=5)
    for_drafter, for_verifier = samplers(Rule.REJECT, params, None, 2)
    drawn = over(TableTarget(TABLE)).propose([1, 2, 3], 0, Plan(8), for_drafter).tokens
    assert (
        drawn == Drawing(lambda prefix: processed(TABLE(prefix), (), PURE)).propose([1, 2, 3], 0, Plan(8), for_drafter).tokens
    )
    assert drawn != over(TableTarget(TABLE)).propose([1, 2, 3], 0, Plan(8), for_verifier).tokens


def test_it_stops_after_an_end_token() -> None:
    context = [1, 2, 3]
    tokens = greedy_after(TABLE, context, 6)
    end = tokens[2]
    n = tokens.index(end) + 1
    model = TableTarget(TABLE)
    assert over(model, ends=[end]).propose(context, 0, Plan(6), sampler()).tokens == tokens[:n]
    assert model.n_cached == len(context) + n - 1, "an end token is not decoded"


@pytest.mark.parametrize("params", [GREEDY, SEEDED, PURE], ids=["greedy", "seeded", "pure"])
def test_it_drafts_only_what_the_grammar_allows_and_stops_where_nothing_is(params: SamplingParams) -> None:
    grammar = hashed_grammar(N_VOCAB, 4, length=5)
    own = FakeConstraint(grammar)
    for seed in range(10):
        tokens = over(TableTarget(TABLE)).propose([1, 2], 0, Plan(8), sampler(replace(params, seed=seed), own)).tokens
        assert len(tokens) == 5
        assert all(token in grammar(tokens[:i]) for i, token in enumerate(tokens))
    assert own.taken == ()
