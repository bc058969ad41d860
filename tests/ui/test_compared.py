"""Comparisons and servers on screens of any width: no figure is cut, no name steers the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_cli.bench.comparison import compare
from specdec_cli.bench.statistics import summarised
from specdec_cli.ui.compared import as_csv, as_markdown, render_compared
from specdec_cli.ui.served import render_served
from tests.bench.result_files import measured

SERVED = measured("theirs", {"server": 10.0}, levels=(1, 2, 8))
OURS = measured("a rather long name of a model", tasks=("a", "b", "c"))


@pytest.mark.parametrize("columns", [40, 46, 60, 76, 80, 200])
def test_no_figure_is_cut_and_no_line_too_long(columns: int) -> None:
    served = replace(SERVED, summaries=summarised(SERVED))
    for text in (
        render_compared(compare([SERVED, OURS], ["a", "b"]), colour=False, columns=columns),
        render_compared(compare([SERVED, SERVED, SERVED], ["a", "b", "c"]), colour=False, columns=columns),
        render_served(served, colour=False, columns=columns),
    ):
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= columns


def test_letters_stand_for_the_columns() -> None:
    text = render_compared(compare([SERVED, OURS], ["a", "b"]), colour=False, columns=80)
    assert text.splitlines()[:3] == [
        "A  theirs",
        "B  a rather long name of a model, plain",
        "C  a rather long name of a model, model",
    ]
    assert "x A" in text


def test_colour_only_where_it_is_allowed() -> None:
    found = compare([SERVED, OURS], ["a", "b"])
    assert "\x1b" not in render_compared(found, colour=False, columns=80)
    assert "\x1b[1;32m1.50" in render_compared(found, colour=True, columns=80)


def test_names_from_files_do_not_steer_anything() -> None:
    evil = replace(OURS, label="=1+\x1b[31m|x|")
    found = compare([SERVED, evil], ["a\x1b[2J", "b"])
    assert "\x1b" not in render_compared(found, colour=False, columns=80)
    assert "\\|x\\|" in as_markdown(found)
    assert ",=1+" not in as_csv(found)
