"""Profiles as text for people: the list of all, one of settings, one of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line
from specdec_cli.units import count, size

_LONGEST = 500  # characters of a text that a file brings
_NARROWEST = 40  # columns; a narrower terminal wraps by itself

Document = Mapping[str, Any]


def render_list(document: Document, *, colour: bool, columns: int) -> str:
    """Every profile with its kind and what it is for, and where one's own belong."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for header in ("profile", "of", "from"):
        table.add_column(header, no_wrap=True)
    table.add_column("what it is", overflow="fold", ratio=1)
    for entry in document["profiles"]:
        fault = entry["fault"]
        text = Text(_one_line(fault), style="red") if fault else Text(_one_line(entry["description"] or ""))
        table.add_row(Text(_one_line(entry["name"])), entry["kind"], entry["origin"], text)
    place = Text(f"\nYours go to {document['own_folder']}, those of pairs to its folder pairs.", style="dim")
    return _render(Group(table, place), colour, columns)


def render_profile(document: Document, *, colour: bool, columns: int) -> str:
    """One profile of settings."""
    grid = _grid()
    for key, value in document["settings"].items():
        texts = value if isinstance(value, str) else ", ".join(value)
        grid.add_row(Text(key), Text(_one_line(texts)))
    return _render(Group(*_head(document), grid), colour, columns)


def render_family(document: Document, *, colour: bool, columns: int) -> str:
    """One profile of pairs: how its targets are recognised, and its drafts."""
    words, grid = document["vocabulary"], _grid()
    grid.add_row("family", Text(_one_line(document["family"])))
    grid.add_row("targets", Text(", ".join(map(_one_line, document["targets"]))))
    if words["tokenizer"]:
        pre = ", ".join(words["pre_tokenizers"])
        grid.add_row("tokenizer", Text(_one_line(f"{words['tokenizer']}{f', pre-tokenizer {pre}' if pre else ''}")))
    if words["size"]:
        low, high = words["size"]
        grid.add_row("tokens", f"{low:,}" if low == high else f"{low:,} to {high:,}")
    for token in words["tokens"]:
        grid.add_row("", Text(_one_line(f"{token['id']:,} is {token['text']}")))
    return _render(Group(*_head(document), grid, *map(_draft, document["drafts"])), colour, columns)


def _draft(draft: Document) -> RenderableType:
    n_bytes = f", {size(draft['bytes'])}" if draft["bytes"] else ""
    about = f"{_one_line(draft['name'])}, {count(draft['parameters'])} parameters{n_bytes}, {_one_line(draft['licence'])}"
    told = [Text(about), *([Text(_one_line(draft["note"]))] if draft["note"] else []), Text(draft["source"], style="dim")]
    return Group(Text(""), Text(draft["draft"], style="bold"), *(Padding(text, (0, 0, 0, 2)) for text in told))


def _head(document: Document) -> list[RenderableType]:
    name = Text(f"{_one_line(document['name'])}: a profile of {document['kind']}, {document['origin']}", style="bold")
    described = [Text(_one_line(document["description"]))] if document["description"] else []
    return [name, Text(document["path"], style="dim"), *described, Text("")]


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


def _render(what: RenderableType, colour: bool, columns: int) -> str:
    return render(what, colour=colour, columns=max(columns, _NARROWEST))


def _one_line(text: str) -> str:
    return one_line(text, _LONGEST)
