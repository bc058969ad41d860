"""The table of measurements fits the terminal and says of every task what there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_cli.bench.results import Cause, Difference
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.verdict import Thresholds, judge
from specdec_cli.ui.benched import render_benched
from tests.bench import made

FOUND = made.results(
    {"code-1": ([10, 11, 12], [20, 22, 24]), "prose": ([100, 100, 100], [90, 91, 92]), "summary": ([10], [])},
    differences=[Difference("prose", "ngram", 3, Cause.ROUNDING)],
)


def test_a_line_for_each_task_and_the_verdict_below() -> None:
    whole = replace(FOUND, verdict=judge(FOUND, Thresholds(speedup=1.2, memory=1)))
    lines = render_benched(whole, colour=False, columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["task", "plain", "drafted", "x", "plain", "acc", "per", "pass", "TTFT", "ITL", "text"]
    assert lines[1].split() == ["code-1", "11.0", "22.0", "2.00", "(2.00-2.00)", "0.75", "2.50", "0.60", "200/400", "same"]
    assert lines[3].split() == ["summary", "10.0", "0.60", "200/380"]
    text = " ".join(" ".join(lines).split())
    assert "memory needed: plain 100 MB, ngram 200 MB" in text
    assert "code-1 gains" in text
    assert "--require-speedup: at least 1.2x; measured" in text
    assert "--max-memory: at most 1 B; measured 200 MB. Missed." in text


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_it_fits_and_is_plain_without_colour(columns: int) -> None:
    text = render_benched(FOUND, colour=False, columns=columns)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" in render_benched(FOUND, colour=True, columns=columns)


def test_several_drafters_have_a_line_each() -> None:
    beside = tuple(replace(run, variant="model") for run in FOUND.runs if run.variant == "ngram")
    both = replace(FOUND, variants=("plain", "ngram", "model"), runs=(*FOUND.runs, *beside))
    both = replace(both, summaries=summarised(both))
    lines = render_benched(both, colour=False, columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[:2] == ["code-1", "ngram"]
    assert lines[2].split()[:2] == ["model", "11.0"]


def test_nothing_measured_is_an_empty_table() -> None:
    empty = replace(FOUND, runs=(), summaries=(), planned_bytes={})
    assert len(render_benched(empty, colour=False, columns=80).splitlines()) == 1


def test_names_that_steer_a_terminal_are_spelled_out() -> None:
    odd = replace(FOUND, tasks=(made.task("a\x1b[2J"),), runs=(made.run("a\x1b[2J"),))
    assert "\x1b" not in render_benched(replace(odd, summaries=summarised(odd)), colour=False, columns=80)
