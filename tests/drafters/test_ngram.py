"""The n-gram drafter follows the majority of the latest places where the end of the context occurred before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Plan, Proposal, Sampler
from specdec_cli.decoding.noise import noise_for
from specdec_cli.drafters.ngram import N_LENGTHS, N_MATCHED, NgramDrafter, certainty
from specdec_cli.drafters.occurrences import LENGTHS, N_RECENT
from tests.fakes.constraint import FakeConstraint
from tests.fakes.runs import SEEDED

SAMPLER = Sampler(SEEDED, noise_for(0))
contexts = st.lists(st.integers(0, 3), min_size=1, max_size=60)
corpora = st.lists(st.integers(0, 3), max_size=40)


def proposed(
    context: Sequence[int], n: int = 4, drafter: NgramDrafter | None = None, changed: int = 0, corpus: Sequence[int] = ()
) -> Proposal:
    return (drafter or NgramDrafter(corpus)).propose(context, changed, Plan(n), SAMPLER)


def drafted(context: Sequence[int], n: int = 4, drafter: NgramDrafter | None = None, changed: int = 0) -> tuple[int, ...]:
    return proposed(context, n, drafter, changed).tokens


# The rule, as a search of everything

Group = tuple[list[int], list[tuple[int, int]], bool]  # a text, places in it with the lengths of their matches, a corpus's


def places_of(text: Sequence[int], end: Sequence[int], n: int) -> list[int]:
    """Where the last n tokens of end occurred in a text and were followed by a token, the latest first."""
    return [at for at in range(len(text) - 1, n - 1, -1) if list(text[at - n : at]) == list(end[-n:])]


def match(text: Sequence[int], at: int, end: Sequence[int]) -> int:
    """How many tokens before a place are those at the end."""
    for n in range(min(N_MATCHED, at, len(end))):
        if text[at - 1 - n] != end[-1 - n]:
            return n
    return min(N_MATCHED, at, len(end))


def groups_at(context: Sequence[int], end: list[int], corpus: Sequence[int]) -> list[Group]:
    """What the end of the text finds, in the order of the rule."""
    own = [(n, places_of(context, end, n)) for n in LENGTHS if n <= len(end)]
    own = [(n, places) for n, places in own if places][:N_LENGTHS]
    others = [(n, places_of(corpus, end, n)) for n in LENGTHS if 2 <= n <= len(end)]
    others = [(n, places) for n, places in others if places and n > max((n for n, _ in own), default=0)][:1]
    found = [(context, places, False) for _, places in own] + [(corpus, places, True) for _, places in others]
    return [(list(text), [(at, match(text, at, end)) for at in places[:N_RECENT]], strange) for text, places, strange in found]


def searched(context: Sequence[int], n_max: int, corpus: Sequence[int] = ()) -> list[tuple[int, float]]:
    """Tokens with their certainties."""
    draft: list[tuple[int, float]] = []
    end, copied = list(context), list[Group]()
    while len(draft) < n_max:
        best: tuple[float, int, Group] | None = None
        for text, places, strange in [*copied, *groups_at(context, end, corpus)]:
            text = text if strange else end
            said = [text[at] for at, _ in places]
            token = max(said, key=lambda one: (said.count(one), -said.index(one)))
            for_it = [(at, n) for at, n in places if text[at] == token]
            sure = certainty(max(n for _, n in for_it), len(for_it), len(said) - len(for_it), strange=strange)
            if best is None or sure > best[0]:
                best = sure, token, (text, [(at + 1, n + 1) for at, n in for_it], strange)
        if best is None:
            break
        sure, token, group = best
        draft.append((token, sure))
        end = [*end, token]
        copied = [] if group[2] and group[1][0][0] == len(corpus) else [group]
    return draft


def told(proposal: Proposal) -> list[tuple[int, float]]:
    return list(zip(proposal.tokens, proposal.peak, strict=True))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(contexts, st.integers(1, 20), corpora)
def test_it_finds_what_a_search_of_everything_finds(context: list[int], n_max: int, corpus: list[int]) -> None:
    assert told(proposed(context, n_max, corpus=corpus)) == searched(context, n_max, corpus)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(0, 59), st.lists(st.integers(0, 2), min_size=1, max_size=12), st.booleans(), st.booleans()),
        max_size=8,
    ),
    corpora,
)
def test_it_follows_a_context_that_grows_and_is_edited(
    steps: list[tuple[int, list[int], bool, bool]], corpus: list[int]
) -> None:
    drafter, context = NgramDrafter(corpus), [0]
    for where, tokens, settles, knows in steps:
        kept = where % (len(context) + 1)
        context = context[:kept] + tokens
        if settles:
            drafter.settle(kept)
        assert told(proposed(context, 5, drafter, kept if knows else 0)) == searched(context, 5, corpus)


# What the rule comes to


def test_the_longest_match_wins_over_a_more_recent_one() -> None:
    assert drafted([1, 2, 3, 0, 7, 9, 2, 3, 0, 8, 4, 1, 2, 3, 0], 1) == (7,)


def test_of_equal_matches_the_most_recent_wins() -> None:
    assert drafted([2, 3, 7, 2, 3, 8, 2, 3], 1) == (8,)


def test_the_majority_wins_over_the_most_recent() -> None:
    assert drafted([2, 3, 7, 0, 2, 3, 7, 1, 2, 3, 8, 4, 2, 3], 1) == (7,)


def test_a_draft_leaves_the_places_that_go_on_otherwise() -> None:
    """The latest place says 7 5, the two before it 7 6."""
    assert drafted([2, 3, 7, 6, 0, 2, 3, 7, 6, 1, 2, 3, 7, 5, 4, 2, 3], 2) == (7, 6)


def test_many_places_that_agree_win_over_a_longer_match_that_does_not_say() -> None:
    """After 1 2 came 5 and 6; after 2 alone always 6 but once."""
    assert drafted([1, 2, 6, 0, 1, 2, 5, 8, 2, 6, 9, 2, 6, 7, 2, 6, 3, 1, 2], 1) == (6,)


@pytest.mark.parametrize("context", [[1], [1, 2], [1, 2, 3]])
def test_a_token_that_never_occurred_drafts_nothing(context: list[int]) -> None:
    assert drafted(context) == ()


def test_a_copy_runs_on_into_itself() -> None:
    assert drafted([5, 1, 2, 1, 2], 7) == (1, 2, 1, 2, 1, 2, 1)
    assert drafted([4, 4, 4], 5) == (4, 4, 4, 4, 4)


def test_a_proposal_is_made_of_point_masses() -> None:
    proposal = NgramDrafter().propose([1, 2, 3, 1, 2], 0, Plan(3), SAMPLER)
    assert (proposal.drafter, proposal.tokens, proposal.q) == ("ngram", (3, 1, 2), (None,) * 3)
    assert len(proposal.peak) == len(proposal.prob) == 3
    assert all(math.isnan(prob) for prob in proposal.prob)


# Certainty


def test_certainty_rises_with_the_match_and_along_the_draft() -> None:
    short, long = proposed([1, 2, 3, 7, 1, 2], 3).peak, proposed([5, 1, 2, 3, 7, 5, 1, 2], 3).peak
    assert 0 < short[0] < short[1] < short[2] < 1
    assert long[0] > short[0]


def test_certainty_falls_where_the_same_tokens_went_on_otherwise() -> None:
    steady, fickle = proposed([1, 2, 3, 1, 2, 3, 1, 2], 1).peak, proposed([1, 2, 4, 1, 2, 3, 1, 2], 1).peak
    assert fickle[0] < steady[0]


@given(st.integers(1, 99), st.integers(1, N_RECENT), st.integers(0, N_RECENT))
def test_certainty_is_ordered(n: int, n_for: int, n_against: int) -> None:
    sure = certainty(n, n_for, n_against)
    assert 0 < sure < 1
    assert certainty(n + 1, n_for, n_against) > sure
    assert certainty(n, n_for + 1, n_against) > sure
    assert certainty(n, n_for, n_against + 1) < sure
    assert certainty(n, n_for, n_against, strange=True) < sure


def test_it_offers_what_it_would_propose_first() -> None:
    drafter = NgramDrafter()
    assert drafter.offers([1, 2, 3], 0) == {}
    context = [1, 2, 3, 1, 2]
    offered = drafter.offers(context, 3)["ngram"]
    assert offered.certainty == drafter.propose(context, len(context), Plan(1), SAMPLER).peak[0]
    assert offered.n_behind == 0


# A corpus


def test_a_corpus_is_copied_from_where_the_context_has_nothing() -> None:
    assert proposed([8, 1, 2], 3, corpus=[1, 2, 5, 6, 7]).tokens == (5, 6, 7)


def test_a_draft_ends_with_the_corpus() -> None:
    assert proposed([8, 1, 2], 9, corpus=[1, 2, 5, 6]).tokens == (5, 6)


def test_one_token_of_a_corpus_is_no_match() -> None:
    assert proposed([8, 2], 3, corpus=[1, 2, 5, 6]).tokens == ()


def test_the_context_wins_over_a_corpus_where_its_match_is_as_long() -> None:
    assert proposed([1, 2, 7, 8, 1, 2], 1, corpus=[1, 2, 5, 1, 2, 5, 1, 2, 5]).tokens == (7,)


def test_a_longer_match_of_the_corpus_wins() -> None:
    assert proposed([2, 7, 8, 0, 1, 2], 1, corpus=[8, 0, 1, 2, 5]).tokens == (5,)


def test_a_corpus_is_less_certain_than_the_context() -> None:
    strange, own = proposed([8, 1, 2], 1, corpus=[1, 2, 5]), proposed([1, 2, 5, 8, 1, 2], 1)
    assert strange.tokens == own.tokens
    assert strange.peak[0] < own.peak[0]


@pytest.mark.parametrize("corpus", [[], [1], [1, 2]])
def test_a_corpus_may_be_too_short_to_say_anything(corpus: list[int]) -> None:
    assert proposed([8, 1, 2], 3, corpus=corpus).tokens == ()


# Grammar, interruption


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
