"""Strips of tokens: every mark readable without colour, every cell in its column, at any width."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from specdec_cli.tracing.form import RoundLine
from specdec_cli.ui.strips import NARROW, heading, legend, strip
from tests.tracing.made import round_line

ODD = ["日本語", "🙂", "\n", "\t", "\x1b[31m", "\u202e", "e\u0301", "", "\u200b", " the", "'''", "[+", "a" * 300]


def drawn(line: RoundLine, columns: int, *, colour: bool = False) -> list[str]:
    return strip(line, "pays", colour=colour, columns=columns).split("\n")


def test_each_kind_of_token_has_its_sign() -> None:
    first, second = drawn(round_line(3, [" a", " b", " c"], 1, " d"), 80)
    assert first.endswith("[+ a][- b][- c]")
    assert second.strip() == "[~ d]"
    (whole,) = drawn(round_line(3, [" a", " b"], 2, "!"), 80)
    assert whole.endswith("[+ a][+ b][*!]")
    (plain,) = drawn(round_line(3, added=" d"), 80)
    assert plain.endswith("[ d]")


def test_the_token_that_replaces_another_stands_below_it() -> None:
    for refused, added in [(" b", " longer"), (" longer", " b"), ("日本", "x"), ("x", "日本"), ("\n", "🙂")]:
        first, second = drawn(round_line(0, [" a", refused, " c"], 1, added), 80)
        assert cell_len(first[: first.index("[-")]) == cell_len(second[: second.index("[~")])


def test_columns_stand_below_their_names() -> None:
    head = heading(80)
    (row,) = drawn(round_line(7, [" a"], 1, "b"), 80)
    assert row.index("[+") == head.index("tokens")
    assert row[: head.index("K") + 1].endswith("1/1")
    assert heading(NARROW - 1) == ""


@pytest.mark.parametrize("columns", [10, 30, 59, 60, 80, 200])
@pytest.mark.parametrize("text", ODD)
def test_no_line_is_wider_than_the_terminal_or_steers_it(text: str, columns: int) -> None:
    for line in drawn(round_line(1, [text, text, text, text], 2, text), columns):
        assert cell_len(line) <= max(columns, 60 if columns < NARROW else columns)
        assert line.isprintable()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=12), max_size=9), st.integers(0, 9), st.text(max_size=12), st.integers(60, 120))
def test_any_text_keeps_the_lines_within_the_columns(drafted: list[str], accepted: int, added: str, columns: int) -> None:
    rows = drawn(round_line(1, drafted, min(accepted, len(drafted)), added), columns)
    assert all(cell_len(row) <= columns and row.isprintable() for row in rows)


def test_colour_only_repeats_the_signs() -> None:
    line = round_line(3, [" a", " b", "日"], 1, " d")
    coloured = "\n".join(drawn(line, 80, colour=True))
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [row.rstrip() for row in bare.split("\n")] == drawn(line, 80)


def test_a_long_draft_goes_on_in_the_next_line() -> None:
    rows = drawn(round_line(0, [f" word{i}" for i in range(16)], 16, "!"), 80)
    assert len(rows) > 1
    assert "".join(row.strip() for row in rows).count("[+ word") == 16
    assert len({row.index("[") for row in rows}) == 1


def test_the_legend_fits() -> None:
    assert all(len(line) <= 50 for line in legend(colour=False, columns=50).split("\n"))
