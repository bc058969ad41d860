"""Tables that commands share: the comparison of several runs, names beside what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from specdec_cli.decoding.stats import ratio
from specdec_cli.ui.render import NOT_KNOWN, counted, number, render

_WIDE = 60  # columns from which names need not wrap


@dataclass(frozen=True, slots=True)
class Compared:
    """One run, beside the plain one."""

    label: str
    tokens_per_s: float | None
    times_plain: float | None  # tokens per second over those of plain decoding
    n_accepted: int
    n_drafted: int
    n_rounds: int
    same_text: bool | None  # as plain decoding; None for plain decoding itself


def comparison_table(rows: Sequence[Compared], *, colour: bool = False, columns: int = 80) -> str:
    """The runs, one a line, as text that fits the columns. The last line comes without its newline."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("run", overflow="fold")
    for header in ("tokens/s", "x plain", "acceptance", "tokens/pass"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("same text", no_wrap=True)
    for row in rows:
        per_pass = 1 + row.n_accepted / row.n_rounds if row.n_rounds else None
        table.add_row(
            Text(row.label),
            Text(number(row.tokens_per_s, 1)),
            Text(number(row.times_plain, 2)),
            Text(counted(ratio(row.n_accepted, row.n_drafted), row.n_accepted, row.n_drafted)),
            Text(f"{number(per_pass, 2)} ({row.n_rounds})"),
            _same(row.same_text),
        )
    return render(table, colour=colour, columns=columns)


def command_table(rows: Sequence[tuple[str, str]], *, colour: bool, columns: int) -> str:
    """Names, each with what it means."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=columns >= _WIDE, style="bold", overflow="fold")
    grid.add_column(overflow="fold")
    for name, meaning in rows:
        grid.add_row(Text(name), Text(meaning))
    return render(grid, colour=colour, columns=columns)


def _same(same: bool | None) -> Text:
    if same is None:
        return Text(NOT_KNOWN)
    return Text("yes", style="green") if same else Text("NO", style="bold red")
