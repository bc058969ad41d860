"""The sums of a trace, where its drafts fail, and how two of them differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_cli.decoding.contracts import Reason, Why
from specdec_cli.tracing.difference import draws_anew, first_difference, unequal
from specdec_cli.tracing.failures import TokenKind, failures, kind_of
from specdec_cli.tracing.form import AnyLine
from specdec_cli.tracing.summary import document, reason, summed
from tests.tracing.made import NO_GAIN, a_trace, end_line, head, round_line, run_line


def test_rounds_are_counted() -> None:
    totals = summed(a_trace()).totals
    assert (totals.n_rounds, totals.n_emitted, totals.n_drafted, totals.n_accepted) == (3, 6, 5, 3)
    assert (totals.n_recovered, totals.n_bonus) == (1, 1)
    assert dict(totals.judged_at) == {0: 2, 1: 2}
    assert dict(totals.accepted_at) == {0: 2, 1: 1}
    assert dict(totals.lengths) == {0: 1, 3: 1, 2: 1}
    assert dict(totals.reasons_of_none) == {"no gain": 1}
    assert totals.tps == pytest.approx(5 / 0.06)
    assert totals.tokens_per_pass == 2.0
    assert (totals.n_expected, totals.expected_tokens, totals.came_tokens) == (2, 5.0, 5)


def test_time_between_runs_is_nobodys() -> None:
    lines: list[AnyLine] = [head(), run_line(), round_line(0), round_line(1), run_line(1), round_line(0, run=1)]
    later = replace(round_line(1, run=1), at_s=0.2)
    totals = summed([*lines, later]).totals
    assert totals.span_s == pytest.approx(0.03 + 0.1)
    assert totals.n_timed == 2


@pytest.mark.parametrize(
    ("drafted", "asked", "why", "word"),
    [
        (["a"], 4, None, "fixed"),
        ([], 4, None, "no offer"),
        ([], 0, None, "plain"),
        ([], 4, Why(Reason.PAYS, 1.0), "unsure"),
        ([], 0, NO_GAIN, "no gain"),
        (["a"], 4, Why(Reason.PROBE, 1.0), "probe"),
    ],
)
def test_a_round_has_its_reason(drafted: list[str], asked: int, why: Why | None, word: str) -> None:
    assert reason(replace(round_line(0, drafted, why=why), asked=asked)) == word


def test_a_document_has_no_sum_that_is_not_a_number() -> None:
    found = document(summed([head()]), ["a note"])
    assert (found["rounds"], found["acceptance"], found["generation_tps"], found["notes"]) == (0, None, None, ["a note"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" the", TokenKind.WORD_START),
        ("ing", TokenKind.WORD_INSIDE),
        (" don't", TokenKind.WORD_START),
        ("12", TokenKind.NUMBER),
        (" 3.5", TokenKind.NUMBER),
        ("\n\n", TokenKind.WHITESPACE),
        (" ", TokenKind.WHITESPACE),
        (",", TokenKind.PUNCTUATION),
        (' "', TokenKind.PUNCTUATION),
        ("):", TokenKind.CODE),
        (" +=", TokenKind.CODE),
        ("日本", TokenKind.WORD_INSIDE),
        ("🙂", TokenKind.OTHER),
        ("\\xf0\\x9f", TokenKind.OTHER),
        ("", TokenKind.OTHER),
    ],
)
def test_tokens_are_sorted_by_their_text(text: str, kind: TokenKind) -> None:
    assert kind_of(text) is kind
    assert kind_of(text, special=True) is TokenKind.SPECIAL


def test_refusals_are_counted_by_kind_and_the_dearest_come_first() -> None:
    lines: list[AnyLine] = [
        run_line(),
        round_line(0, [" a", " b"], 2, " c"),
        round_line(1, [" one", "1", "2"], 1, ";", peaks=(0.9, 0.3, 0.1)),
        round_line(2, ["\n", "x", "y", "z"], 0, " t", peaks=(0.2,)),
        round_line(3, ["\n", "x", "y", "z"], 0, " u", peaks=(0.8,)),
    ]
    found = failures(lines, 2)
    assert found.judged == {TokenKind.WORD_START: 3, TokenKind.NUMBER: 1, TokenKind.WHITESPACE: 2}
    assert found.accepted[TokenKind.WORD_START] == 3
    assert found.n_refused == 3
    assert [(each.round, each.n_lost) for each in found.dearest] == [(3, 4), (2, 4)]
    assert found.dearest[0].context == " a b c one; t"
    assert failures(lines, 0).dearest == []


def test_the_same_text_has_no_difference_whatever_the_drafts() -> None:
    other: list[AnyLine] = [head(), run_line(), *(round_line(i, added=text) for i, text in enumerate(TEXTS)), end_line()]
    assert first_difference(a_trace(), other) is None
    assert unequal(summed(a_trace()), summed(other)) == []


TEXTS = ("One", ",", " too", " and", "\n", "end")


def test_the_first_difference_is_found_with_its_context() -> None:
    other: list[AnyLine] = [head(), run_line(), round_line(0, added="One"), round_line(1, added=","), round_line(2, added=" 2")]
    found = first_difference(a_trace(), other)
    assert found is not None
    assert (found.run, found.index, found.context) == (0, 2, "One,")
    assert found.a is not None
    assert found.b is not None
    assert (found.a.text, found.a.source, found.b.text, found.b.source) == (" too", "recovered", " 2", "no draft")


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_text_that_ends_sooner_differs_there(n: int) -> None:
    other: list[AnyLine] = [head(), run_line(), *(round_line(i, added=text) for i, text in enumerate(TEXTS[:n]))]
    found = first_difference(a_trace(), other)
    assert found is not None
    assert (found.index, found.b) == (n, None)


def test_a_run_of_several_that_ends_sooner_differs_in_that_run() -> None:
    def trace(*texts: str) -> list[AnyLine]:
        return [
            head(), run_line(), *(round_line(i, added=t) for i, t in enumerate(texts)), run_line(1), round_line(0, run=1),
        ]  # fmt: skip

    found = first_difference(trace("a", "b"), trace("a"))
    assert found is not None
    assert (found.run, found.index) == (0, 1)
    assert found.b is None


def test_traces_of_other_work_are_not_compared() -> None:
    a = summed(a_trace())
    assert "targets" in unequal(a, summed([head("b" * 64), run_line()]))[0]
    assert "prompts" in unequal(a, summed([head(), run_line(prompt="other")]))[0]
    assert unequal(a, summed([head(temp="0.5"), run_line()])) == ["temp is 0 and 0.5."]
    assert unequal(a, summed([head(), run_line(), run_line(1)])) == ["They hold 1 and 2 runs."]
    drawn = [summed([head(), run_line(temperature=0.5, rule="reject", seed=seed)]) for seed in (1, 2)]
    assert unequal(*drawn) == ["The seeds differ: 1 and 2."]
    assert draws_anew(*drawn)
    assert not draws_anew(a, a)
