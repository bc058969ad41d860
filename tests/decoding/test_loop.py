"""The round, driven by every fake drafter: what a run says is the plain run, whatever was drafted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from specdec_cli.decoding.contracts import FinishReason, Kind, Proposal, SamplingParams
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Job, begin, settle
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters.model import ModelDrafter
from tests.fakes.constraint import FakeConstraint, hashed_grammar
from tests.fakes.drafters import CAST, FakeDrafter, Oracle, Planting, Scattered, Silent
from tests.fakes.runs import GREEDY, PURE, SEEDED, Outcome, ScriptedGovernor, job, plain, run
from tests.fakes.target import TableTarget, blended, hashed

N_VOCAB = 8
TABLE = hashed(N_VOCAB, seed=1)
END = 5
every_drafter = pytest.mark.parametrize("name", CAST)


def recorded(asked: Job) -> tuple[int, ...]:
    """Prompt and plain run without any end: what an oracle replays, by position."""
    endless = replace(asked, end_tokens=frozenset(), stops=(), n_predict=48, n_ctx=500)
    return (*asked.prompt, *plain(endless, TABLE).tokens)


def with_drafter(name: str, asked: Job, k: int, *, n_ctx: int = 64, known: tuple[int, ...] = ()) -> Outcome:
    """A run with one of the cast; known: recorded(asked), where it was made before."""
    drafter = CAST[name](known or recorded(asked), N_VOCAB, END)
    return run(asked, TableTarget(TABLE, n_ctx=n_ctx), drafter, k)


@every_drafter
@pytest.mark.parametrize("ends", [frozenset(), frozenset({END})], ids=["no end", "an end"])
@pytest.mark.parametrize(
    ("params", "rule"), [(GREEDY, Rule.MATCH), (SEEDED, Rule.MATCH), (GREEDY, Rule.REJECT)], ids=["greedy", "seeded", "reject"]
)
def test_a_run_says_what_the_plain_run_says(name: str, ends: frozenset[int], params: SamplingParams, rule: Rule) -> None:
    asked = job(params=params, rule=rule, end_tokens=ends)
    expected, known = plain(asked, TABLE).said, recorded(asked)
    for k in range(17):
        assert with_drafter(name, asked, k, known=known).said == expected, f"K = {k}"


@pytest.mark.parametrize("seed", range(20))
def test_seeds_differ_and_each_is_the_same_with_a_model_drafter(seed: int) -> None:
    asked = job(params=replace(PURE, seed=seed))
    expected = plain(asked, TABLE).said
    draft = TableTarget(blended(TABLE, hashed(N_VOCAB, 9), 0.4))
    drafter = ModelDrafter(draft, N_VOCAB, np.array([], dtype=np.int64), frozenset())
    assert run(asked, TableTarget(TABLE), drafter, 4).said == expected
    assert expected != plain(replace(asked, params=replace(PURE, seed=seed + 1)), TABLE).said


def test_plain_decoding_is_one_token_a_round() -> None:
    outcome = run(job(n_predict=9), TableTarget(TABLE))
    assert outcome.said == plain(job(n_predict=9), TABLE).said
    assert [len(done.emitted) for done in outcome.rounds] == [done.width for done in outcome.rounds] == [1] * 9
    assert {done.kind for done in outcome.rounds} == {Kind.BONUS}


def test_a_perfect_drafter_needs_one_pass_for_k_plus_one_tokens() -> None:
    asked = job(n_predict=20)
    outcome = with_drafter("oracle", asked, 4)
    assert [len(done.emitted) for done in outcome.rounds] == [5] * 4
    assert [done.n_accepted for done in outcome.rounds] == [4] * 4


def test_rounds_say_what_happened() -> None:
    asked = job(n_predict=12)
    run_of = recorded(asked)
    outcome = run(asked, TableTarget(TABLE), Oracle(run_of, N_VOCAB, wrong_at=frozenset({5, 9})), 3)
    position = 3
    for i, done in enumerate(outcome.rounds):
        assert (done.index, done.position, done.emitted) == (i, position, run_of[position : position + len(done.emitted)])
        wrong = [at - position for at in (5, 9) if position <= at < position + done.n_drafted]
        assert done.n_accepted == (wrong[0] if wrong else done.n_drafted)
        assert done.kind is (Kind.RECOVERED if wrong else Kind.BONUS)
        assert done.width == 1 + done.n_drafted
        assert len(done.p) == len(done.q) == done.n_accepted + bool(wrong)
        assert done.host_s >= 0
        position += len(done.emitted)
    assert [done.at_s for done in outcome.rounds] == sorted(done.at_s for done in outcome.rounds)


# Budget and context


@every_drafter
def test_the_budget_is_met_exactly(name: str) -> None:
    for n in (0, 1, 2, 7, 8, 9):
        outcome = with_drafter(name, job(n_predict=n), 8)
        assert outcome.said == plain(job(n_predict=n), TABLE).said
        assert (len(outcome.tokens), outcome.finish) == (n, FinishReason.LENGTH)


def test_a_budget_of_nothing_passes_nothing() -> None:
    target = TableTarget(TABLE)
    assert run(job(n_predict=0), target, Silent(), 8).rounds == ()
    assert target.passes == []


@every_drafter
def test_without_a_budget_the_context_is_filled(name: str) -> None:
    asked = job(n_predict=-1, n_ctx=30)
    outcome = with_drafter(name, asked, 8, n_ctx=30)
    assert outcome.said == plain(asked, TABLE).said
    assert (len(asked.prompt) + len(outcome.tokens), outcome.finish) == (31, FinishReason.CONTEXT)


@every_drafter
def test_every_prompt_length_near_a_full_context_ends_with_the_same_token(name: str) -> None:
    for n_prompt in range(10, 21):
        asked = job(prompt=[i % 4 for i in range(n_prompt)], n_predict=-1, n_ctx=20)
        outcome = with_drafter(name, asked, 8, n_ctx=20)
        assert outcome.said == plain(asked, TABLE).said
        assert outcome.finish is FinishReason.CONTEXT


def test_the_limit_of_the_job_counts_where_the_cache_is_larger() -> None:
    asked = job(n_predict=-1, n_ctx=20)
    target = TableTarget(TABLE, n_ctx=64)
    assert run(asked, target, Oracle(recorded(asked), N_VOCAB), 8).said == plain(asked, TABLE).said
    assert target.n_cached == 20


@every_drafter
@pytest.mark.parametrize(("max_pass", "max_piece"), [(1, 1), (2, 7), (3, 2), (5, 64)])
def test_a_pass_is_never_wider_than_it_may_be(name: str, max_pass: int, max_piece: int) -> None:
    asked = job(prompt=[i % 5 for i in range(23)])
    target = TableTarget(TABLE, max_pass=max_pass, max_piece=max_piece)
    outcome = run(asked, target, CAST[name](recorded(asked), N_VOCAB, END), 8)
    assert outcome.said == plain(asked, TABLE).said
    assert max(done.width for done in outcome.rounds) <= max_pass
    assert [done.n_done for done in outcome.prompt_passes] == [*range(max_piece, 22, max_piece), 22]


def test_the_prompt_is_passed_in_the_same_pieces_whatever_the_drafter() -> None:
    asked = job(prompt=[i % 5 for i in range(23)], n_predict=5)
    pieces = set()
    for make in (None, *CAST.values()):
        target = TableTarget(TABLE, max_pass=16, max_piece=5)
        run(asked, target, make(recorded(asked), N_VOCAB, END) if make else None, 4)
        pieces.add(tuple(target.passes[:5]))
    assert pieces == {tuple(asked.prompt[i : min(i + 5, 22)] for i in range(0, 22, 5))}


@pytest.mark.parametrize("n_cached", [0, 1, 7, 21, 22])
def test_what_the_cache_holds_of_the_prompt_is_not_passed_again(n_cached: int) -> None:
    asked = job(prompt=[i % 5 for i in range(23)], n_predict=5)
    target = TableTarget(TABLE)
    if n_cached:
        target.feed(asked.prompt[:n_cached])
    outcome = run(asked, target)
    assert outcome.said == plain(asked, TABLE).said
    assert max(target.n_decoded.values()) == 1
    assert {done.n_reused for done in outcome.prompt_passes} <= {n_cached}


def test_a_prompt_of_one_token_needs_no_prompt_pass() -> None:
    outcome = with_drafter("oracle", job(prompt=[3]), 4)
    assert outcome.said == plain(job(prompt=[3]), TABLE).said
    assert outcome.prompt_passes == ()


# What reaches the drafter and the governor


def test_the_governor_is_told_the_room_that_budget_context_and_pass_leave() -> None:
    asked = job(prompt=[1, 2, 3], n_predict=12, n_ctx=14)
    governor = ScriptedGovernor([1, 1, 1, 99])
    run(asked, TableTarget(TABLE, n_ctx=14, max_pass=10), Oracle(recorded(asked), N_VOCAB), governor)
    assert governor.rooms == [9, 9, 7, 5]  # the pass; the pass and the context; the context; the context
    assert [len(done.emitted) for done in governor.observed] == [2, 2, 2, 6]


def test_the_last_tokens_of_a_budget_are_not_overdrafted() -> None:
    asked = job(n_predict=7)
    governor = ScriptedGovernor([4, 4, 4])
    run(asked, TableTarget(TABLE), Oracle(recorded(asked), N_VOCAB), governor)
    assert governor.rooms == [6, 1]


def test_a_drafter_is_asked_only_when_there_is_something_to_draft_and_sees_every_verdict() -> None:
    asked = job(n_predict=8)
    drafter = Oracle(recorded(asked), N_VOCAB)
    outcome = run(asked, TableTarget(TABLE), drafter, ScriptedGovernor([0, 2, 0, 2]))
    assert [plan.n_max for plan in drafter.plans] == [2, 2]
    assert [verdict.n_accepted for verdict in drafter.verdicts] == [done.n_accepted for done in outcome.rounds] == [0, 2, 0, 2]
    assert drafter.settled == [3 + 8 - 1]


def test_a_drafter_is_told_that_nothing_changed_but_what_came_since_the_last_round() -> None:
    drafter = Silent()
    run(job(n_predict=9), TableTarget(TABLE), drafter, ScriptedGovernor([2, 0, 0, 2, 2, 0, 2, 2]))
    # In the last round there is room for one token only, so nobody is asked.
    assert drafter.changes == [0, 3, 4, 5, 6, 7, 8, 9], "the context's length when it was shown last"


class Trimming(FixedGovernor):
    """Trims every proposal to one token."""

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal.cut(1)


def test_a_trimmed_proposal_is_what_is_verified() -> None:
    asked = job(n_predict=12)
    outcome = run(asked, TableTarget(TABLE), Oracle(recorded(asked), N_VOCAB), Trimming(5))
    assert outcome.said == plain(asked, TABLE).said
    assert {(done.n_drafted, done.width) for done in outcome.rounds} == {(1, 2)}


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("planted", [-1, N_VOCAB, N_VOCAB + 1, 2**31])
def test_an_id_that_is_no_token_is_counted_refused_and_never_passed(planted: int, rule: Rule) -> None:
    asked = job(n_predict=12, rule=rule)
    outcome = run(asked, TableTarget(TABLE), Planting(recorded(asked), (planted,), at=2), 6)
    assert outcome.said == plain(asked, TABLE).said
    for done in outcome.rounds[:-1]:
        assert done.proposal.tokens[2:] == (planted,), "cut after the first such id"
        assert (done.n_drafted, done.n_invalid, done.n_accepted, done.width) == (3, 1, 2, 3)
        assert (done.kind, done.p[-1]) == (Kind.RECOVERED, 0.0)


# Constraint, penalties, bias


@every_drafter
@pytest.mark.parametrize("params", [GREEDY, SEEDED, replace(PURE, top_p=0.9)], ids=["greedy", "seeded", "no top-k"])
def test_a_grammar_gives_the_plain_run_and_ends_it_when_nothing_may_follow(name: str, params: SamplingParams) -> None:
    for seed in range(3):
        own = FakeConstraint(hashed_grammar(N_VOCAB, seed, length=11))
        asked = job(n_predict=-1, params=params, constraint=own)
        expected, known = plain(asked, TABLE).said, recorded(asked)
        for k in (0, 1, 5, 16):
            outcome = with_drafter(name, asked, k, known=known)
            assert outcome.said == expected
            assert (len(outcome.tokens), outcome.finish) == (11, FinishReason.GRAMMAR)
        assert own.taken == (), "the job's own constraint stays as it was"


def test_under_reject_a_grammar_is_kept_too() -> None:
    grammar = hashed_grammar(N_VOCAB, 3, length=11)
    for seed in range(10):
        asked = job(n_predict=-1, params=replace(PURE, seed=seed), rule=Rule.REJECT, constraint=FakeConstraint(grammar))
        outcome = run(asked, TableTarget(TABLE), Scattered(N_VOCAB, seed, spread=True), 4)
        assert all(token in grammar(outcome.tokens[:i]) for i, token in enumerate(outcome.tokens))
        assert (len(outcome.tokens), outcome.finish) == (11, FinishReason.GRAMMAR)


def test_a_grammar_that_allows_nothing_at_all_ends_the_run_before_its_first_token() -> None:
    asked = job(constraint=FakeConstraint(lambda taken: frozenset()))
    outcome = with_drafter("oracle", asked, 4)
    assert outcome.said == ((), "", FinishReason.GRAMMAR)


@every_drafter
@pytest.mark.parametrize("last_n", [-1, 0, 2, 64])
def test_penalties_see_the_prompt_the_emitted_tokens_and_the_draft_before_their_row(name: str, last_n: int) -> None:
    penalties = replace(SEEDED, repeat_penalty=1.7, frequency_penalty=0.6, presence_penalty=0.4, repeat_last_n=last_n)
    for params in (penalties, replace(penalties, temperature=0.0)):
        asked = job(params=params)
        expected = plain(asked, TABLE).said
        assert (expected == plain(job(params=replace(SEEDED, temperature=params.temperature)), TABLE).said) is (last_n == 0)
        known = recorded(asked)
        for k in (1, 6):
            assert with_drafter(name, asked, k, known=known).said == expected


@every_drafter
def test_an_end_token_that_a_bias_forbids_never_ends_a_run(name: str) -> None:
    free = job(end_tokens=frozenset({END}))
    assert plain(free, TABLE).finish is FinishReason.END, "the run to compare with would end"
    asked = replace(free, params=replace(GREEDY, logit_bias={END: -np.inf}))
    outcome = with_drafter(name, asked, 6)
    assert outcome.said == plain(asked, TABLE).said
    assert END not in outcome.tokens
    assert outcome.finish is FinishReason.LENGTH


# Two halves of a round


def test_two_sequences_can_take_turns() -> None:
    jobs = [job(prompt=[1, 2, 3], params=SEEDED), job(prompt=[4, 4, 0, 1], n_predict=17, params=replace(SEEDED, seed=8))]
    generations = [Generation(asked) for asked in jobs]
    targets = [TableTarget(TABLE) for _ in jobs]
    drafters: Sequence[FakeDrafter] = [Oracle(recorded(asked), N_VOCAB, wrong_at=frozenset({9, 12})) for asked in jobs]
    for asked, target in zip(jobs, targets, strict=True):
        target.feed(asked.prompt[:-1])
    governor = FixedGovernor(3)
    while any(generation.finish is None for generation in generations):
        open_now = [i for i, generation in enumerate(generations) if generation.finish is None]
        requests = {i: begin(generations[i], targets[i], drafters[i], governor) for i in open_now}
        results = {i: targets[i].decode(requests[i].tokens) for i in open_now}
        for i in open_now:
            settle(generations[i], requests[i], results[i])
            targets[i].keep(len(generations[i].context) - 1)
    for generation, asked in zip(generations, jobs, strict=True):
        assert tuple(generation.context[len(asked.prompt) :]) == plain(asked, TABLE).tokens
