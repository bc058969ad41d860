"""Rounds of a trace as aligned strips: a cell for each token, and the one that replaces a refused token below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from specdec_cli.decoding.contracts import Kind
from specdec_cli.tracing.form import RoundLine, RunLine
from specdec_cli.ui.marks import ACCEPTED, BONUS, RECOVERED, REFUSED, Mark
from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line
from specdec_cli.units import visible

NARROW = 60  # columns below which the strip goes under the figures
_NARROWEST = 24
_HEADS = ("round", "at", "K", "ms", "why")
_WIDTHS = (5, 6, 5, 7, 8)
_INDENT = 2
_DIM = Style(dim=True)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A token in its brackets; mark None: of a round without a draft."""

    text: str
    mark: Mark | None

    def shown(self, width: int) -> str:
        """In at most so many cells, cut where it is longer."""
        whole = f"[{self.mark.sign if self.mark is not None else ''}{self.text}]"
        return whole if cell_len(whole) <= width else f"{set_cell_size(whole, width - 4)}...]"


def legend(*, colour: bool, columns: int) -> str:
    """What columns and marks mean."""
    marks = "; ".join(f"[{mark.sign} ] {mark.meaning.partition(',')[0]}" for mark in (ACCEPTED, REFUSED, RECOVERED, BONUS))
    words = f"at: position of the first emitted token; K: accepted/drafted tokens. {marks}; no mark: no draft."
    return render(Text(words, style=_DIM), colour=colour, columns=max(columns, _NARROWEST))


def heading(columns: int) -> str:
    """The names of the columns; none where there is no room for columns."""
    if columns < NARROW:
        return ""
    return f"{_figures(_HEADS)}  tokens"


def run_heading(line: RunLine) -> str:
    """Which run begins, where there are several."""
    words = [word for word in (line.task, line.variant) if word]
    repeat = f", repeat {line.repeat}" if line.repeat is not None else ""
    return one_line(f"run {line.run}: {', '.join(words) or line.drafter}{repeat}, {line.n_prompt} prompt tokens", 200)


def strip(line: RoundLine, why: str, *, colour: bool, columns: int) -> str:
    """A round. Its last line comes without its newline."""
    columns = max(columns, _NARROWEST)
    accepted = f"{line.accepted}/{len(line.drafted)}" if line.drafted else "0"
    took = f"{1000 * (line.draft_s + line.pass_s + line.host_s):.1f}"
    values = (str(line.index), str(line.position), accepted, took, why)
    if columns >= NARROW:
        head = f"{_figures(values)}  "
    else:
        head = f"{line.index} at {line.position}, K {accepted}, {took} ms, {why}"
    start = cell_len(head) if columns >= NARROW else _INDENT
    rows = list(_rows(_columns(line), columns - start))
    shown = [Text(head, style=_DIM)]
    for i, row in enumerate(rows):
        if i > 0 or columns < NARROW:
            shown.append(Text(" " * start))
        shown[-1].append_text(row)
    return "\n".join(render(each, colour=colour, columns=max(columns, each.cell_len)) for each in shown)


def _columns(line: RoundLine) -> list[tuple[_Cell, _Cell | None]]:
    """Cells, each with what stands below it."""
    cells: list[tuple[_Cell, _Cell | None]] = []
    added = _Cell(visible(line.chosen.text), _added(line)) if line.chosen is not None else None
    for i, token in enumerate(line.drafted):
        text = visible(token.text) or f"no token {token.id}"
        refused = i >= line.accepted
        below = added if i == line.accepted and line.kind is Kind.RECOVERED else None
        cells.append((_Cell(text, REFUSED if refused else ACCEPTED), below))
    if added is not None and (line.kind is Kind.BONUS or not line.drafted):
        cells.append((added, None))
    return cells


def _added(line: RoundLine) -> Mark | None:
    if not line.drafted:
        return None
    return RECOVERED if line.kind is Kind.RECOVERED else BONUS


def _rows(cells: Sequence[tuple[_Cell, _Cell | None]], width: int) -> Iterator[Text]:
    """The cells in rows of at most so many columns, each with a second one where something stands below."""
    row: list[tuple[_Cell, _Cell | None, int]] = []
    used = 0
    for above, below in cells:
        wide = max(cell_len(each.shown(width)) for each in (above, below) if each is not None)
        if row and used + wide > width:
            yield from _row(row, width)
            row, used = [], 0
        row.append((above, below, wide))
        used += wide
    if row:
        yield from _row(row, width)


def _row(row: Iterable[tuple[_Cell, _Cell | None, int]], width: int) -> Iterator[Text]:
    first, second, used = Text(), Text(), 0
    for above, below, wide in row:
        _append(first, above, wide, width)
        if below is not None:
            second.append(" " * (used - second.cell_len))
            _append(second, below, wide, width)
        used += wide
    yield first
    if second:
        yield second


def _append(text: Text, cell: _Cell, wide: int, width: int) -> None:
    shown = cell.shown(width)
    text.append(shown, style=cell.mark.style if cell.mark is not None else "")
    text.append(" " * (wide - cell_len(shown)))


def _figures(values: Sequence[str]) -> str:
    """Figures in their columns; the last is a word."""
    *numbers, (word, width) = zip(values, _WIDTHS, strict=True)
    return " ".join([*(value.rjust(room) for value, room in numbers), word.ljust(width)])
