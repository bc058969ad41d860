"""The models on this machine as a table, those of one family together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from specdec_cli.ui.render import NOT_KNOWN
from specdec_cli.ui.units import from_home, one_line
from specdec_cli.units import count, size

_HEAD = ("model", "size", "quant", "architecture", "parameters")
_RIGHT = (1, 4)  # columns of numbers
_GAP = "  "
_INDENT = "  "
_LONGEST = 500  # characters of a reference or a path
_LONGEST_REASON = 200

_HOW_TO_GET_ONE = "To get one: specdec pull owner/repo:Q4_K_M\nTo look elsewhere too: specdec models --in FOLDER"

Cells = tuple[str, ...]
Document = Mapping[str, Any]


def render_listed(document: Document, *, colour: bool, columns: int) -> str:
    """The document of models as text. A name that is too long for its column has a line of its own, and is never broken."""
    runnable = [(name, [_cells(row) for row in group]) for name, group in groupby(document["models"], _heading)]
    rows = [row for _, group in runnable for row in group]
    if not rows and not document["broken"] and not document["unfinished"]:
        where = " and ".join(_name(folder) for folder in (document["cache"], *document["folders"]))
        return f"No models in {where}.\n{_HOW_TO_GET_ONE}"
    widths = [max(cell_len(cells[i]) for cells in (_HEAD, *rows)) for i in range(len(_HEAD))]
    rest = sum(widths[1:]) + len(_GAP) * (len(_HEAD) - 1) + len(_INDENT)
    widths[0] = min(widths[0], max(columns - rest, len(_HEAD[0])))
    blocks = [f"{_styled(heading, colour)}\n" + "\n".join(_line(row, widths) for row in group) for heading, group in runnable]
    if rows:
        head = _line(_HEAD, widths)
        blocks[0] = f"{head}\n{blocks[0]}"
    blocks += [f"{_styled(heading, colour)}\n{text}" for heading, text in _leftovers(document)]
    return "\n\n".join(blocks)


def _heading(row: Document) -> str:
    if row["runs"]:
        return str(row["family"] or "no vocabulary")
    return f"{one_line(row['kind'], 60)}: cannot run by itself"


def _name(reference: str) -> str:
    return one_line(from_home(reference), _LONGEST)


def _cells(row: Document) -> Cells:
    return (
        _name(row["reference"]),
        size(row["bytes"]),
        row["quantisation"],
        one_line(row["architecture"] or NOT_KNOWN, 24),
        count(row["parameters"]) if row["parameters"] else NOT_KNOWN,
    )


def _line(cells: Cells, widths: Sequence[int]) -> str:
    padded = [_padded(cell, width, right=i in _RIGHT) for i, (cell, width) in enumerate(zip(cells, widths, strict=True))]
    if cell_len(cells[0]) > widths[0]:
        padded[0] = " " * widths[0]
        return f"{_INDENT}{cells[0]}\n{(_INDENT + _GAP.join(padded)).rstrip()}"
    return (_INDENT + _GAP.join(padded)).rstrip()


def _padded(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if right else cell + blanks


def _leftovers(document: Document) -> Iterator[tuple[str, str]]:
    """What is no model: files that cannot be read, and downloads that have not ended."""
    if document["broken"]:
        yield (
            "broken",
            "\n".join(
                f"{_INDENT}{_name(one['reference'])}  {size(one['bytes'])}\n"
                f"{_INDENT}{_INDENT}{one_line(one['reason'], _LONGEST_REASON)}"
                for one in document["broken"]
            ),
        )
    if document["unfinished"]:
        yield (
            "unfinished",
            "\n".join(
                f"{_INDENT}{_name(one['reference'])}  {size(one['bytes'])}, {one['reason']}" for one in document["unfinished"]
            )
            + f"\n{_INDENT}To complete one: specdec pull {_name(document['unfinished'][0]['reference'])}",
        )


def _styled(heading: str, colour: bool) -> str:
    return Style(bold=True).render(heading, color_system=ColorSystem.STANDARD) if colour else heading
