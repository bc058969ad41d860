"""A trace for people: what its summary, its failures and its differences say at several widths."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from specdec_cli.tracing.difference import first_difference, unequal
from specdec_cli.tracing.failures import failures
from specdec_cli.tracing.form import AnyLine
from specdec_cli.tracing.summary import summed
from specdec_cli.ui.traced import render_diff, render_summary, render_worst
from tests.tracing.made import a_trace, end_line, head, round_line, run_line

HOSTILE = "\x1b[2J\u202e日本\n🙂" * 30


def summary(lines: list[AnyLine], columns: int = 80, *notes: str, colour: bool = False) -> str:
    return render_summary(summed(lines), notes, colour=colour, columns=columns)


def hostile() -> list[AnyLine]:
    return [
        head(HOSTILE, draft=HOSTILE),
        run_line(drafter=HOSTILE, task=HOSTILE),
        round_line(0, [HOSTILE, HOSTILE], 1, HOSTILE),
        end_line(),
    ]


def test_a_summary_tells_what_was_decided_and_what_came_of_it() -> None:
    found = summary(a_trace())
    assert "3 rounds, 6 tokens" in found
    assert "0.600 (3/5)" in found
    assert re.search(r"1  #+ +100 % of 2", found)
    assert re.search(r"2  #+ +50 % of 2", found)
    assert "draft 0.01 s (17%), pass 0.06 s (67%), host 0.01 s (17%)" in found or "pass 0.06 s" in found
    assert re.search(r"drafted +2  it promised more tokens per second", found)
    assert re.search(r"K = 0 +1  a draft promised no gain", found)
    assert "2.50 tokens in 20.0 ms of a round with a draft; came 2.50 in 25.0 ms" in " ".join(found.split())


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    empty: list[AnyLine] = [head()]
    for lines in (a_trace(), hostile(), empty):
        worst = render_worst(failures(lines, 5), ["cut"], colour=False, columns=columns)
        other: list[AnyLine] = [head(), run_line(), round_line(0, added="Two")]
        a, b = summed(lines), summed(other)
        apart = unequal(a, b)
        found = None if apart else first_difference(lines, other)
        diff = render_diff(a, b, apart, found, ["cut"], anew=True, colour=False, columns=columns)
        for line in (*summary(lines, columns, "cut").split("\n"), *worst.split("\n"), *diff.split("\n")):
            assert cell_len(line) <= max(columns, 40), line
            assert line.isprintable()


def test_one_round_is_no_plural() -> None:
    assert re.search(r"in 1 round$", summary([head(), run_line(), round_line(0, [" a"], 1, " b"), end_line()]), re.MULTILINE)


def test_notes_come_first() -> None:
    assert summary(a_trace(), 80, "The trace is cut.").startswith("note: The trace is cut.")


def test_failures_show_both_tokens_and_what_was_thought_of_them() -> None:
    found = render_worst(failures(a_trace(), 5), [], colour=False, columns=80)
    assert re.search(r"word start +2 +1 +50 % +100 %", found)
    assert "round 1: word start, 2 tokens thrown away" in found
    assert "...One," in found
    assert "[- two]  q 1.000, peak 0.500, p 0.000, raw 0.200, rank 3" in found
    assert "[~ too]  p 1.000, raw 0.600, rank 1" in found


def test_without_drafts_there_is_nothing_to_fail() -> None:
    assert (
        render_worst(failures([head(), run_line(), round_line(0)], 5), [], colour=False, columns=80)
        == "No draft token was judged."
    )


def test_a_difference_names_both_tokens() -> None:
    other: list[AnyLine] = [head(), run_line(), round_line(0, added="Two"), end_line()]
    a, b = summed(a_trace()), summed(other)
    found = render_diff(a, b, [], first_difference(a_trace(), other), [], anew=False, colour=False, columns=80)
    assert found.startswith("The texts part at emitted token 0.")
    assert "A [One] id " in found
    assert "B [Two] id " in found
    assert re.search(r"rounds +3 +1\n", found)


def test_the_same_text_is_said_to_be_the_same() -> None:
    a = summed(a_trace())
    found = render_diff(a, a, [], None, [], anew=False, colour=False, columns=80)
    assert found.startswith("The emitted tokens are the same, all 6 of them.")


def test_what_cannot_be_compared_is_said_first() -> None:
    a, b = summed(a_trace()), summed([head("b" * 64)])
    found = render_diff(a, b, unequal(a, b), None, [], anew=False, colour=False, columns=80)
    assert found.startswith(
        "These traces cannot be compared token by token:\n  The targets differ: aaaaaaaaaaaa and bbbbbbbbbbbb."
    )
