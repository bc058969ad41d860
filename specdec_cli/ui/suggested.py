"""What suggest found, as tables for people, and the command to paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line
from specdec_cli.units import count, size

_LONGEST = 300  # characters of a text that a file brings
_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_LEAST_NAME = 16  # columns
_WIDE = 64  # columns from which all figures stand beside the name
_MOST_KNOWN = 6
_NO_GAIN = 1.05

_REASONS = {  # one, several
    "same": ("is the target itself", "are the target itself"),
    "size": ("is as large as the target", "are as large as the target"),
    "vocabulary": ("has another vocabulary", "have other vocabularies"),
    "kind": ("is no model that writes text", "are no models that write text"),
    "state": ("cannot drop tokens again", "cannot drop tokens again"),
}
_ESTIMATE = (
    "GPU and CPU are speed-ups, estimated, not measured. They rest on the cost of a draft step (bytes read for a token, as a"
    " share of the target's) and on the share of drafted tokens that similar pairs were seen to accept; on a GPU a pass over"
    " several tokens is taken to cost what one token costs, on a CPU what it cost on two cores. The summary after a run shows"
    " what is true here."
)
_ON_CPU = "No GPU of this machine is used: the figures for a CPU are the ones to look at."

Document = Mapping[str, Any]


def render_suggested(document: Document, *, colour: bool, columns: int) -> str:
    """The document of suggest. Commands stand on lines of their own, whole, to be copied."""
    width = max(columns, _NARROWEST)

    def shown(text: str, style: str = "") -> str:
        return render(Text(text, style=style), colour=colour, columns=width)

    parts = [shown(_head(document["target"]), "bold")]
    parts += [shown(one_line(notice, _LONGEST)) for notice in document["notices"]]
    absent = [known for known in document["known"] if known["here"] is None]
    if document["drafts"]:
        parts.append(render(_drafts(document["drafts"], width >= _WIDE), colour=colour, columns=width))
    elif document["draft_free"]:
        parts.append(shown("No model on this machine that was looked at can draft for it."))
    if absent:
        parts.append(render(_known(absent[:_MOST_KNOWN]), colour=colour, columns=width))
    left_out = " ".join(_left_out(document))
    if left_out:
        parts.append(shown(left_out, "dim"))
    if document["drafts"] or absent:
        parts.append(shown(_ESTIMATE, "dim"))
        if not document["gpus"]:
            pays = any(entry["cpu_speed_up"] >= _NO_GAIN for entry in (*document["drafts"], *absent))
            parts.append(shown(_ON_CPU if pays else f"{_ON_CPU} By these, no draft model pays here."))
    for free in document["draft_free"]:
        parts.append(shown(f"Without a second model: --draft {free['draft']}. {free['what']}"))
    with_models = [*document["drafts"][:1], *absent[:1]]
    if not document["gpus"]:  # a command to paste is a recommendation
        with_models = [entry for entry in with_models if entry["cpu_speed_up"] >= _NO_GAIN]
    commands = [entry["command"] for entry in (*with_models, *document["draft_free"])]
    if commands:
        parts.append("\n".join(f"  {one_line(command, 10_000)}" for command in commands))
    return "\n\n".join(parts)


def _head(target: Document) -> str:
    family = target["family"] or target["architecture"] or "unknown family"
    return (
        f"{one_line(target['label'], _LONGEST)}: {one_line(family, _LONGEST)}, {count(target['parameters'])} parameters,"
        f" {target['quantisation']}, reads {size(target['bytes_per_token'])} a token"
    )


def _table(title: str, *headers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(title, overflow="fold", ratio=1, min_width=_LEAST_NAME)
    for header in headers:
        table.add_column(header, justify="left" if header == "licence" else "right", no_wrap=header != "licence")
    return table


def _drafts(drafts: Sequence[Document], wide: bool) -> Table:
    table = _table("on this machine", "size", *(("cost", "accepted") if wide else ()), "GPU", "CPU")
    for draft in drafts:
        rates = (f"{draft['cost']:.2f}", f"{draft['acceptance']:.2f}") if wide else ()
        table.add_row(_with_notes(_short(draft["draft"]), _notes(draft)), size(draft["bytes"]), *rates, *_speed_ups(draft))
    return table


def _known(known: Sequence[Document]) -> Table:
    table = _table("known, not on this machine", "size", "licence", "GPU", "CPU")
    for draft in known:
        notes = [one_line(draft["note"], _LONGEST)] if draft["note"] else []
        if not draft["same_family"]:
            notes.append(f"Of the family {draft['family']}, whose tokens the target shares.")
        name = _with_notes(draft["draft"], notes)
        table.add_row(name, f"~{size(draft['bytes'])}", one_line(draft["licence"], _LONGEST), *_speed_ups(draft))
    return table


def _with_notes(name: str, notes: Iterable[str]) -> Group:
    return Group(Text(name), *(Padding(Text(note, style="dim"), (0, 0, 0, 2)) for note in notes))


def _notes(draft: Document) -> Iterator[str]:
    if not draft["same_family"]:
        yield "Of another family: the tokens are the same, it will agree less."
    if draft["fits_memory"] is False:
        yield "Both together need more than the free memory."
    for finding in draft["findings"]:
        yield one_line(finding, _LONGEST)


def _speed_ups(entry: Document) -> tuple[str, str]:
    return _times(entry["speed_up"]), _times(entry["cpu_speed_up"])


def _times(speed_up: float) -> str:
    return f"{speed_up:.1f}x" if speed_up >= _NO_GAIN else "no gain"


def _short(draft: str) -> str:
    """The name of a file without its folders; a reference whole."""
    return one_line(draft if not draft.lower().endswith(".gguf") else draft.replace("\\", "/").rpartition("/")[2], _LONGEST)


def _left_out(document: Document) -> Iterator[str]:
    counts = Counter(entry["reason"] for entry in document["left_out"])
    told = [f"{n} {_REASONS[reason][n > 1]}" for reason, n in counts.items()]
    if document["not_worth"]:
        told.append(f"{len(document['not_worth'])} would make it no faster")
    if told:
        yield f"Of the other models looked at, {', '.join(told)}."
    broken = document["unreadable"]
    if broken:
        files = "1 file cannot" if len(broken) == 1 else f"{len(broken)} files cannot"
        yield f"{files} be read: {one_line(broken[0]['sentence'], _LONGEST)}"
