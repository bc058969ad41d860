"""Where a run ends is the same wherever the end falls in a block: end tokens, stop strings, budgets, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specdec_cli.decoding.contracts import FinishReason, Kind
from specdec_cli.decoding.loop import Job
from specdec_cli.decoding.verification import Rule
from tests.fakes.constraint import FakeConstraint
from tests.fakes.drafters import CAST, Oracle
from tests.fakes.runs import PURE, SEEDED, Outcome, job, plain, run
from tests.fakes.target import Table, TableTarget, hashed, leaning

N_VOCAB = 12
BASE = hashed(N_VOCAB, seed=2)
PROMPT = (0, 1, 2)
END = 11
K = 4


def writes(tokens: Sequence[int]) -> Table:
    """A target that goes on from the prompt with tokens, as good as certainly."""
    return leaning(BASE, {len(PROMPT) + i: token for i, token in enumerate(tokens)})


def replay(asked: Job, tokens: Sequence[int], k: int = K) -> tuple[Outcome, TableTarget]:
    """A run whose drafter knows all that follows, past the end too."""
    target = TableTarget(writes(tokens))
    return run(asked, target, Oracle((*PROMPT, *tokens), N_VOCAB), k), target


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("n_before", range(11))
def test_an_end_token_ends_the_run_wherever_it_falls_in_a_block(n_before: int, rule: Rule) -> None:
    """With K = 4 blocks of five: first, in the middle, last draft token, bonus, and first of the next."""
    tokens = [*([3, 4, 5] * 4)[:n_before], END, *[6] * 12]
    for params in (replace(PURE, temperature=0.0), PURE):
        asked = job(PROMPT, 20, params, rule, end_tokens=frozenset({END}))
        outcome, target = replay(asked, tokens)
        assert outcome.said == (tuple(tokens[: n_before + 1]), "defdefdefdefdef"[:n_before], FinishReason.END)
        assert target.cached == [*PROMPT, *tokens[:n_before]], "every committed token but the last"
        last = outcome.rounds[-1]
        assert len(last.emitted) == n_before % 5 + 1
        assert last.n_drafted == min(n_before % 5 + 1, K), "nothing is verified past an end token"


@pytest.mark.parametrize("end", [7, 9, END])
def test_any_of_several_end_tokens_ends_the_run(end: int) -> None:
    asked = job(PROMPT, end_tokens=frozenset({7, 9, END}))
    outcome, _ = replay(asked, [3, end, 7, 9])
    assert outcome.said == ((3, end), "d", FinishReason.END)


def test_an_end_token_may_be_the_first_thing_said() -> None:
    outcome, _ = replay(job(PROMPT, end_tokens=frozenset({END})), [END, 3])
    assert outcome.said == ((END,), "", FinishReason.END)


def test_a_drafted_end_token_that_is_refused_does_not_end_the_run() -> None:
    tokens = [3, 4, 5, 6, 7, 8, 3, 4]
    asked = job(PROMPT, 8, end_tokens=frozenset({END}))
    target = TableTarget(writes(tokens))
    outcome = run(asked, target, CAST["end token third"]((*PROMPT, *tokens), N_VOCAB, END), K)
    assert outcome.said == (tuple(tokens), "defghide", FinishReason.LENGTH)
    assert [done.n_drafted for done in outcome.rounds[:2]] == [3, 3], "cut after the end token"


WORD = [3, 4, 5, 6, 7, 8, 9, 10, 3, 4, 5, 6]
TEXT = "defghijkdefg"


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("at", range(6))
def test_a_stop_string_ends_the_text_however_blocks_cut_it(at: int, length: int) -> None:
    stop = TEXT[at : at + length]
    asked = job(PROMPT, 12, stops=("zz", stop))
    n = at + length
    for k in (0, 1, 2, 3, 4, 5, 8, 16):
        outcome, target = replay(asked, WORD, k)
        assert outcome.said == plain(asked, writes(WORD)).said == (tuple(WORD[:n]), TEXT[:at], FinishReason.STOP)
        assert target.cached == [*PROMPT, *WORD[: n - 1]]


@pytest.mark.parametrize("k", [0, 3, 8])
def test_a_stop_string_inside_a_token_hides_the_rest_of_it(k: int) -> None:
    asked = job(PROMPT, 12, stops=("fgX",), piece=lambda token: b"fgXtail" if token == 5 else b"_%d" % token)
    outcome, _ = replay(asked, WORD, k)
    assert outcome.said == ((3, 4, 5), "_3_4", FinishReason.STOP)


@pytest.mark.parametrize("k", [0, 1, 4])
def test_text_that_only_began_like_a_stop_string_is_shown_in_the_end(k: int) -> None:
    asked = job(PROMPT, 4, stops=("fghi", "efx"))
    outcome, _ = replay(asked, WORD, k)
    assert outcome.said == (tuple(WORD[:4]), "defg", FinishReason.LENGTH)
    assert "".join(done.text for done in outcome.rounds) == "de", "held back until the run ended"


@pytest.mark.parametrize("k", [0, 1, 2, 4, 8])
def test_characters_split_over_tokens_are_shown_whole(k: int) -> None:
    pieces = {i: bytes([byte]) for i, byte in enumerate("é€𝄞".encode())}
    asked = job(PROMPT, 9, piece=lambda token: pieces[token])
    outcome, _ = replay(asked, [0, 1, 2, 3, 4, 5, 6, 7, 8], k)
    assert outcome.text == "é€𝄞"
    assert all("\ufffd" not in done.text for done in outcome.rounds)


@pytest.mark.parametrize("k", [0, 2, 8])
@pytest.mark.parametrize(
    ("n_predict", "n_ctx", "ends", "stops", "finish", "n"),
    [
        (5, 64, {END}, (), FinishReason.LENGTH, 5),
        (6, 64, {END}, (), FinishReason.END, 6),  # the end token is the last of the budget
        (5, 64, set(), ("h",), FinishReason.STOP, 5),  # so is the stop string's last character
        (6, 8, {END}, (), FinishReason.END, 6),  # the end token fills the context
        (6, 8, set(), (), FinishReason.LENGTH, 6),  # the budget fills the context
        (7, 8, set(), (), FinishReason.CONTEXT, 6),
    ],
)
def test_when_ends_meet_the_more_telling_one_is_named(
    n_predict: int, n_ctx: int, ends: set[int], stops: tuple[str, ...], finish: FinishReason, n: int, k: int
) -> None:
    tokens = [3, 4, 5, 6, 7, END, 3, 4]
    asked = job(PROMPT, n_predict, n_ctx=n_ctx, end_tokens=frozenset(ends), stops=stops)
    target = TableTarget(writes(tokens), n_ctx=n_ctx)
    outcome = run(asked, target, Oracle((*PROMPT, *tokens), N_VOCAB), k)
    assert (outcome.tokens, outcome.finish) == (tuple(tokens[:n]), finish)


@pytest.mark.parametrize("k", [0, 2, 8])
def test_a_cut_block_advances_the_grammar_by_its_emitted_tokens_only(k: int) -> None:
    """tests.fakes.runs.checked compares the committed state after each round."""
    anything = FakeConstraint(lambda taken: frozenset(range(N_VOCAB)))
    for stops, n_predict in ((("ef",), 12), ((), 4)):
        outcome, _ = replay(job(PROMPT, n_predict, SEEDED, stops=stops, constraint=anything), WORD, k)
        assert len(outcome.tokens) == (3 if stops else 4)


def test_counts_of_a_cut_round_are_those_of_verification() -> None:
    outcome, _ = replay(job(PROMPT, 12, stops=("ef",)), WORD, 8)
    (done,) = outcome.rounds
    assert (done.n_drafted, done.n_accepted, done.kind, len(done.emitted)) == (8, 8, Kind.BONUS, 3)
