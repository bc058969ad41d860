"""Measurements as CSV and Markdown: every run, every figure, and nothing that breaks a table or a spreadsheet."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

from specdec_cli.bench.reports import as_csv, as_markdown
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.verdict import Thresholds, judge
from tests.bench import made

FOUND = made.results({"code": ([10, 12], [20, 24]), "prose": ([10], [9])})
WHOLE = replace(FOUND, verdict=judge(FOUND, Thresholds(speedup=9)))


def test_csv_has_a_line_for_each_run() -> None:
    rows = list(csv.DictReader(StringIO(as_csv(FOUND))))
    assert len(rows) == len(FOUND.runs)
    assert (rows[0]["task"], rows[0]["generation_tps"], rows[0]["energy_j"]) == ("code", "10", "")
    assert float(rows[0]["itl_p50_s"]) == 0.2


def test_a_cell_that_a_spreadsheet_would_calculate_is_text() -> None:
    odd = replace(FOUND, runs=(replace(FOUND.runs[0], task='=1+1,"x"'),))
    assert next(csv.DictReader(StringIO(as_csv(odd))))["task"] == '\'=1+1,"x"'


def test_markdown_has_a_table_with_every_figure_and_the_verdict() -> None:
    text = as_markdown(WHOLE)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4
    assert len({line.count("|") for line in table}) == 1
    assert (
        "| code | ngram | 22.0 (20.0-24.0) | 2.00 (2.00-2.00) | 0.750 | 2.50 | 24.0 | 0.60 | 200 / 400 / 400 | same |" in table
    )
    assert "- target: target.gguf, llama Q4_1, 1.00 kB, SHA-256 aaaaaaaaaaaa" in text
    assert "temperature 0" in text
    assert "- require-speedup: at least 9x; 1.34x. Missed." in text


def test_a_name_cannot_break_the_table() -> None:
    odd = replace(FOUND, tasks=(made.task("a|b\nc"),), runs=(made.run("a|b\nc"),))
    row = as_markdown(replace(odd, summaries=summarised(odd))).splitlines()[-4:]
    assert any("a\\|b c" in line for line in row)


def test_energy_is_told_where_it_was_counted() -> None:
    assert "energy" not in as_markdown(FOUND)
    counted = replace(FOUND, runs=tuple(replace(run, energy_j=6.0) for run in FOUND.runs))
    assert "plain 2.00 J, ngram 2.00 J" in as_markdown(counted)
