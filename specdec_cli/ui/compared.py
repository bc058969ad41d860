"""Result files side by side as a table for people, as Markdown and CSV for pages and sheets, and as a JSON document."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import StringIO

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.bench.comparison import Cell, Comparison, Load
from specdec_cli.bench.reports import middle, ranged
from specdec_cli.bench.results import Ratio, Spread
from specdec_cli.bench.statistics import Outcome, outcome
from specdec_cli.ui.render import number, render
from specdec_cli.ui.units import one_line

SCHEMA = "specdec.compare/1"

_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_ROOMY = 76  # columns from which spreads and intervals have room
_LONGEST_NAME = 60
_LONGEST = 500  # characters of a sentence, which may hold a path
_STYLES = {Outcome.FASTER: "bold green", Outcome.SLOWER: "bold red", Outcome.EQUAL: ""}
_HEADS = ("task", "run", "tokens/s", "x first", "TTFT s", "acc", "text")
_LOAD_HEADS = ("at a time", "run", "tokens/s in all", "tokens/s each", "x first", "TTFT s")
_WORDS = ("task", "run", "text")  # columns that hold no numbers
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins so for a formula


def render_compared(compared: Comparison, *, colour: bool, columns: int) -> str:
    """What forbids the comparison, the table, what should be known, and the sentence to quote as the last line."""
    columns = max(columns, _NARROWEST)
    roomy = columns >= _ROOMY
    parts: list[RenderableType] = []
    if compared.unequal:
        parts += [Text("The work is not the same; the ratios say little.", style="bold red")]
        parts += [*(Text(one_line(sentence, _LONGEST), style="red") for sentence in compared.unequal), Text()]
    parts += [_legend(compared), Text(), _table(compared, roomy=roomy)]
    if compared.loads:
        parts += [Text(), _loads(compared, roomy=roomy)]
    ranges = "median (least-largest)" if roomy else "medians"
    interval = ", with its 95 % interval" if roomy else ""
    first = _letter(compared.reference)
    legend = f"tokens/s: {ranges}; x {first}: ratio to {first}{interval}."
    parts += [Text(), Text(legend, style="dim")]
    parts += [Text(one_line(sentence, _LONGEST), style="yellow") for sentence in compared.notes]
    parts += [Text(), Text(one_line(compared.sentence, _LONGEST), style="bold")]
    return render(Group(*parts), colour=colour, columns=columns)


def as_markdown(compared: Comparison) -> str:
    """The same for a page."""
    lines = [f"- **Not the same work:** {_escaped(sentence)}" for sentence in compared.unequal]
    lines += ["", *_markdown(_HEADS, _rows(compared))] if lines else _markdown(_HEADS, _rows(compared))
    if compared.loads:
        lines += ["", *_markdown(_LOAD_HEADS, _load_rows(compared))]
    lines += ["", *(f"- {_escaped(sentence)}" for sentence in compared.notes)]
    return "\n".join([*lines, "", _escaped(compared.sentence)])


def as_csv(compared: Comparison) -> str:
    """A line for each task and column, with plain numbers."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "concurrency", "run", "runs", "tokens_per_s", "tokens_per_s_least", "tokens_per_s_largest",
                     "ratio", "ratio_low", "ratio_high", "ttft_s", "acceptance", "text"])  # fmt: skip
    for row in compared.rows:
        for i, cell in enumerate(row.cells):
            if cell is not None:
                rate, ratio, ttft = cell.generation_tps, cell.ratio, cell.ttft_s
                speeds = [rate.median, rate.low, rate.high] if rate is not None else [None] * 3
                ratios = [ratio.value, ratio.low, ratio.high] if ratio is not None else [None] * 3
                label = compared.columns[i].label
                cells = [row.task, row.concurrency, label, cell.n_runs, *speeds, *ratios, ttft and ttft.median, cell.acceptance]
                writer.writerow([_sheet(each) for each in (*cells, cell.text)])
    return file.getvalue().rstrip("\n")


def document(compared: Comparison, names: Sequence[str]) -> dict[str, object]:
    """The comparison as a JSON document."""
    columns = [
        {"label": each.label, "file": names[each.file], "variant": each.variant, "judged": each.judged, "ratio": _ratio(ratio)}
        for each, ratio in zip(compared.columns, compared.ratios, strict=True)
    ]
    return {
        "schema": SCHEMA,
        "columns": columns,
        "reference": compared.reference,
        "tasks": [
            {
                "task": row.task,
                "concurrency": row.concurrency,
                "cells": [None if cell is None else asdict(cell) for cell in row.cells],
            }
            for row in compared.rows
        ],
        "loads": [asdict(load) for load in compared.loads],
        "unequal": list(compared.unequal),
        "notes": list(compared.notes),
        "sentence": compared.sentence,
    }


def _ratio(ratio: Ratio | None) -> dict[str, object] | None:
    return None if ratio is None else asdict(ratio)


def _letter(column: int) -> str:
    """A, B, ..., Z, AA: what stands for a column in a table, where its name has no room."""
    return (_letter(column // 26 - 1) if column >= 26 else "") + chr(ord("A") + column % 26)


def _legend(compared: Comparison) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for i, column in enumerate(compared.columns):
        grid.add_row(Text(_letter(i), style="bold"), Text(one_line(column.label, _LONGEST_NAME)))
    return grid


def _table(compared: Comparison, *, roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("task", overflow="fold")
    table.add_column("")
    for head in _HEADS[2:-1]:
        table.add_column(_headed(head, compared), justify="right", no_wrap=True)
    table.add_column(_HEADS[-1], no_wrap=True)
    for row in compared.rows:
        name = one_line(row.task, _LONGEST_NAME) + (f" x{row.concurrency}" if row.concurrency > 1 else "")
        for i, cell in enumerate(row.cells):
            if cell is None:
                continue
            style = _STYLES[outcome(cell.ratio)] if cell.ratio is not None else ""
            text_style = {"same": "green", None: ""}.get(cell.text, "yellow")
            *figures, text = _figures(cell, roomy=roomy)
            shown = [
                Text(each, style=style if head == "x first" else "") for head, each in zip(_HEADS[2:-1], figures, strict=True)
            ]
            table.add_row(Text(name), Text(_letter(i), style="bold"), *shown, Text(text, style=text_style))
            name = ""
    return table


def _headed(head: str, compared: Comparison) -> str:
    return f"x {_letter(compared.reference)}" if head == "x first" else head


def _figures(cell: Cell, *, roomy: bool = True) -> tuple[str, str, str, str, str]:
    acceptance = "" if cell.acceptance is None else number(cell.acceptance, 2)
    rate, ratio = rates(cell.generation_tps, roomy=roomy), _ratio_cell(cell.ratio, roomy=roomy)
    return rate, ratio, middle(cell.ttft_s, 2), acceptance, cell.text or ""


def _ratio_cell(ratio: Ratio | None, *, roomy: bool) -> str:
    return ranged(ratio) if roomy or ratio is None else number(ratio.value, 2)


def rates(spread: Spread | None, *, roomy: bool) -> str:
    """Tokens per second as median (least-largest), or the median alone."""
    if spread is None or not roomy:
        return middle(spread, 1)
    return f"{spread.median:.1f} ({spread.low:.1f}-{spread.high:.1f})"


def _rows(compared: Comparison) -> Iterator[list[str]]:
    for row in compared.rows:
        name = row.task + (f" x{row.concurrency}" if row.concurrency > 1 else "")
        for i, cell in enumerate(row.cells):
            if cell is not None:
                yield [name, compared.columns[i].label, *_figures(cell)]


def _loads(compared: Comparison, *, roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), pad_edge=False, header_style="bold")
    for head in _LOAD_HEADS:
        table.add_column("" if head == "run" else _headed(head, compared), justify="right", no_wrap=head in ("run", "x first"))
    for load in _by_load(compared):
        table.add_row(*map(Text, (str(load.concurrency), _letter(load.column), *_load_figures(load, roomy=roomy))))
    return table


def _load_rows(compared: Comparison) -> Iterator[list[str]]:
    for load in _by_load(compared):
        yield [str(load.concurrency), compared.columns[load.column].label, *_load_figures(load, roomy=True)]


def _by_load(compared: Comparison) -> list[Load]:
    return sorted(compared.loads, key=lambda load: (load.concurrency, load.column))


def _load_figures(load: Load, *, roomy: bool) -> tuple[str, str, str, str]:
    found = (rates(load.total_tps, roomy=roomy), rates(load.request_tps, roomy=roomy))
    return (*found, _ratio_cell(load.ratio, roomy=roomy), middle(load.ttft_s, 2))


def _markdown(heads: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    rule = ["---" if head in _WORDS else "---:" for head in heads]
    return [f"| {' | '.join(map(_escaped, row))} |" for row in ([*heads], rule, *rows)]


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _sheet(value: object) -> object:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
