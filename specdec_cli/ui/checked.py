"""What check found, as lines for people: the models, the verdict, every finding, memory, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specdec_cli.pairing.planned import Plan
from specdec_cli.ui.planned import planned_table
from specdec_cli.ui.render import render
from specdec_cli.ui.units import lines, one_line
from specdec_cli.units import count, size

Document = Mapping[str, Any]

_LONGEST = 2000  # characters of a sentence, which may hold a path or what a file brings
_TOKEN = 30  # characters of a token
_UNWRAPPED = 100_000  # columns
_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_VERDICTS = {
    "compatible": ("compatible", "bold green"),
    "notes": ("compatible with notes", "bold yellow"),
    "partial": ("usable in part", "bold yellow"),
    "incompatible": ("incompatible", "bold red"),
}
_MARKS = {"compatible": ("i", "dim"), "notes": ("!", "yellow"), "partial": ("~", "yellow"), "incompatible": ("x", "bold red")}
# Of these the first differing tokens are worth a table; of the others the sentence has the one that matters.
_WITH_TOKENS = frozenset({"text", "reading", "control", "unused"})


def render_checked(document: Document, plan: Plan | None, *, colour: bool, columns: int) -> str:
    """The document of check, a paragraph for each part. The last line comes without its newline.

    plan: the memory plan in it; None where there is none.
    """
    columns = max(columns, _NARROWEST)
    parts: list[list[RenderableType]] = [[_models(document)], list(_verdict(document)), list(_findings(document))]
    shown = [render(Group(*part), colour=colour, columns=columns) for part in parts if part]
    if plan is not None:
        shown.append(planned_table(plan, colour=colour, columns=columns))
        shown.append(render(Group(*_memory(plan)), colour=colour, columns=columns))
    if document["advice"]:
        shown.append("\n".join(_advice(document["advice"], colour, columns)))
    return "\n\n".join(shown)


def _models(document: Document) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for role in ("target", "draft"):
        if (model := document[role]) is not None:
            grid.add_row(Text(role), Text(one_line(model["label"], _LONGEST), style="bold"))
            grid.add_row(Text(), Text(", ".join(_described(model))))
    return grid


def _described(model: Document) -> Iterator[str]:
    yield one_line(model["architecture"] or "unknown architecture", 80)
    if model["parameters"]:
        active = model["active_parameters"]
        # The input table is looked up, not passed through: a difference below a half is no mixture of experts.
        mixture = f" ({count(active)} active)" if 2 * active < model["parameters"] else ""
        yield f"{count(model['parameters'])} parameters{mixture}"
        yield f"{one_line(model['quantisation'], 40)} {size(model['bytes'])}"
    if model["tokens"]:
        yield f"{model['tokens']:,} tokens"
    if model["trained_context"]:
        yield f"context {model['trained_context']:,}"


def _verdict(document: Document) -> Iterator[RenderableType]:
    if document["draft"] is not None:
        words, style = _VERDICTS[document["verdict"]]
        shared = document["vocabularies"]
        counted = f"  {shared['draftable']:,} of {shared['target']:,} tokens can be drafted" if shared else ""
        yield Text.assemble((words, style), (counted, "dim"))
    elif not document["drafters"]:
        yield Text("nothing can draft for it", style="bold red")
    else:
        yield Text("what can draft for it", style="bold green")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for allowed in document["drafters"]:
            grid.add_row(Text(f"  {allowed['drafter']}"), Text(one_line(allowed["sentence"], _LONGEST)))
        yield grid


def _findings(document: Document) -> Iterator[RenderableType]:
    findings = document["findings"]
    if not findings:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    # Beside what makes a pair incompatible, tokens of lesser findings are only noise.
    shown = ("incompatible",) if document["verdict"] == "incompatible" else tuple(_MARKS)
    for found in findings:
        sign, style = _MARKS[found["severity"]]
        cell: list[RenderableType] = [Text(one_line(found["sentence"], _LONGEST))]
        if found["rule"] in _WITH_TOKENS and found["tokens"] > 1 and found["severity"] in shown:
            cell.append(_tokens(found["first_tokens"], found["tokens"]))
        if found["why"]:
            cell.append(Text(one_line(found["why"], _LONGEST), style="dim"))
        grid.add_row(Text(sign, style=style), Text(found["rule"]), Group(*cell))
    yield grid


def _tokens(tokens: Sequence[Document], n: int) -> RenderableType:
    """The first differing tokens, as each model reads them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    grid.add_row(*(Text(head, style="dim") for head in ("id", "target", "draft")))
    for token in tokens:
        grid.add_row(Text(f"{token['id']:,}"), _token(token["target"]), _token(token["draft"]))
    if n > len(tokens):
        grid.add_row(Text("..."), Text(f"{n - len(tokens):,} more", style="dim"), Text())
    return Padding(grid, (0, 0, 0, 2))


def _token(shown: str | None) -> Text:
    return Text("none", style="dim") if shown is None else Text(one_line(shown, _TOKEN))


def _memory(plan: Plan) -> Iterator[RenderableType]:
    if not plan.fits or plan.draft_fits is False:
        yield Text("It does not fit in memory.", style="bold red")
    for sentence in plan.sentences:
        yield Text(one_line(sentence, _LONGEST))


def _advice(steps: Sequence[Document], colour: bool, columns: int) -> Iterator[str]:
    yield render(Text("what to do", style="bold"), colour=colour, columns=columns)
    for step in steps:
        yield render(Padding(Text(one_line(step["sentence"], _LONGEST)), (0, 0, 0, 2)), colour=colour, columns=columns)
        if step["command"]:
            # On one line, however long: what is wrapped or cut cannot be pasted.
            yield "    " + render(Text(lines(step["command"]), style="cyan"), colour=colour, columns=_UNWRAPPED)
