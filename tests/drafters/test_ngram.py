"""The n-gram drafter copies what followed the longest, then most recent, earlier occurrence of the context's end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Plan, Sampler
from specdec_cli.decoding.noise import noise_for
from specdec_cli.drafters.ngram import N_MAX, N_MIN, NgramDrafter
from tests.fakes.constraint import FakeConstraint
from tests.fakes.runs import SEEDED

SAMPLER = Sampler(SEEDED, noise_for(0))
contexts = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def drafted(context: Sequence[int], n: int = 4, drafter: NgramDrafter | None = None, changed: int = 0) -> tuple[int, ...]:
    return (drafter or NgramDrafter()).propose(context, changed, Plan(n), SAMPLER).tokens


def searched(context: Sequence[int], n_max: int) -> tuple[int, ...]:
    """The same by looking at every place for every length."""
    size = len(context)
    for n in range(min(N_MAX, size), N_MIN - 1, -1):
        for end in range(size - 1, n - 1, -1):
            if context[end - n : end] == context[size - n :]:
                copied = list(context)
                for i in range(n_max):
                    copied.append(copied[end + i])
                return tuple(copied[size:])
    return ()


@settings(derandomize=True, deadline=None, max_examples=200)
@given(contexts, st.integers(1, 20))
def test_it_finds_what_a_search_of_everything_finds(context: list[int], n_max: int) -> None:
    assert drafted(context, n_max) == searched(context, n_max)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 59), st.lists(st.integers(0, 2), min_size=1, max_size=12)), max_size=8))
def test_it_follows_a_context_that_grows_and_is_edited(steps: list[tuple[int, list[int]]]) -> None:
    drafter, context = NgramDrafter(), [0]
    for where, tokens in steps:
        kept = where % (len(context) + 1)
        context = context[:kept] + tokens
        assert drafted(context, 5, drafter, changed=kept) == searched(context, 5)


def test_the_longest_match_wins_over_a_more_recent_one() -> None:
    assert drafted([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], 1) == (7,)


def test_of_equal_matches_the_most_recent_wins() -> None:
    assert drafted([2, 3, 7, 2, 3, 8, 2, 3], 1) == (8,)


@pytest.mark.parametrize("context", [[1], [1, 1], [5, 1, 6, 1], [1, 2]])
def test_fewer_than_two_matching_tokens_draft_nothing(context: list[int]) -> None:
    assert drafted(context) == ()


def test_a_copy_runs_on_into_itself() -> None:
    assert drafted([5, 1, 2, 1, 2], 7) == (1, 2, 1, 2, 1, 2, 1)
    assert drafted([4, 4, 4], 5) == (4, 4, 4, 4, 4)


def test_matches_longer_than_the_limit_count_as_equal() -> None:
    shared = [i % 5 for i in range(N_MAX)]
    context = [9, 9, *shared, 7, 8, 8, *shared, 6, 9, 9, *shared]
    assert drafted(context, 1) == (6,)


def test_a_proposal_is_made_of_point_masses() -> None:
    proposal = NgramDrafter().propose([1, 2, 3, 1, 2], 0, Plan(3), SAMPLER)
    assert (proposal.drafter, proposal.tokens, proposal.q, proposal.peak) == ("ngram", (3, 1, 2), (None,) * 3, (1.0,) * 3)
    assert len(proposal.prob) == 3
    assert all(math.isnan(prob) for prob in proposal.prob)


def test_a_draft_ends_before_the_first_token_that_the_grammar_forbids() -> None:
    legal_after = {(): {3}, (3,): {1, 2}, (3, 1): {0}}
    constraint = FakeConstraint(lambda taken: frozenset(legal_after.get(taken, set())))
    proposal = NgramDrafter().propose([1, 2, 3, 1, 2], 0, Plan(4), Sampler(SEEDED, noise_for(0), constraint))
    assert (proposal.tokens, len(proposal.q), len(proposal.peak), len(proposal.prob)) == ((3, 1), 2, 2, 2)
    assert constraint.taken == ()


def test_settling_forgets_what_was_not_committed() -> None:
    drafter = NgramDrafter()
    assert drafted([1, 2, 3, 1, 2], 1, drafter) == (3,)
    drafter.settle(2)
    assert drafted([1, 2, 7, 1, 2], 1, drafter, changed=0) == (7,)
