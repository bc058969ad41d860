"""What inspect found, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from specdec_cli.ui.render import render
from specdec_cli.ui.units import lines, one_line, percent
from specdec_cli.units import count, size

_LONGEST = 200  # characters of a text that a file brings
_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_SWITCH = {True: "yes", False: "no", None: "not said"}

Document = Mapping[str, Any]
Row = tuple[str, str]


def render_inspected(document: Document, *, whole: bool, colour: bool, columns: int) -> str:
    """The document of inspect as aligned lines. whole: the chat template too."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, value in _rows(document):
        grid.add_row(Text(label), Text(value))
    head = Text(one_line(document["name"], _LONGEST), style="bold")
    shown = render(Group(head, grid), colour=colour, columns=max(columns, _NARROWEST))
    template = document["chat_template"]
    return f"{shown}\n\n{lines(template['text'])}" if whole and template else shown


def render_tokens(tokens: Sequence[Document]) -> str:
    """Tokens, one a line: id, type, text."""
    if not tokens:
        return "no token matches"
    width = max(len(str(token["id"])) for token in tokens)
    kinds = max(len(token["type"]) for token in tokens)
    return "\n".join(f"{token['id']:>{width}}  {token['type']:{kinds}}  {lines(token['text'])}" for token in tokens)


def _rows(document: Document) -> Iterator[Row]:
    yield from _what(document)
    yield from _shape(document)
    yield from _words(document)
    yield from _origin(document)


def _what(document: Document) -> Iterator[Row]:
    files = document["files"]
    yield "file", one_line(document["label"], 1000) + (f" and {len(files) - 1} more parts" if len(files) > 1 else "")
    yield "size", size(document["bytes"]) + (f" in {len(files)} parts" if len(files) > 1 else "")
    if document["runs"]:
        yield "kind", "a model that writes text"
    else:
        yield "kind", f"{document['kind']}: it cannot run by itself"
        yield "why", " ".join(one_line(document[key], 300) for key in ("reason", "fix") if document[key])
    if document["architecture"]:
        yield "architecture", one_line(document["architecture"], _LONGEST)


def _shape(document: Document) -> Iterator[Row]:
    n, types = document["parameters"], document["tensor_types"]
    if n:
        active = document["active_parameters"]
        used = document["experts_used"]
        experts = f", {count(active)} active ({_spread(used)} of {document['experts']} experts)" if active else ""
        yield "parameters", f"{count(n)} ({n:,}){experts}"
        yield "quantisation", f"{document['quantisation']}, {document['bits_per_weight']} bits per weight"
        n_bytes = sum(kind["bytes"] for kind in types)
        mix = ", ".join(f"{kind['type']} {percent(kind['bytes'], n_bytes)}" for kind in types)
        yield "tensors", f"{sum(kind['tensors'] for kind in types):,}: {mix}"
    for label in ("layers", "embedding", "feed_forward"):
        if document[label] is not None:
            yield label.replace("_", "-"), _spread(document[label])
    if document["heads"] is not None:
        kv = document["kv_heads"]
        yield "heads", _spread(document["heads"]) + (f", {_spread(kv)} for keys and values" if kv is not None else "")
    if document["trained_context"] is not None:
        window = document["sliding_window"]
        yield "context", f"{document['trained_context']:,} tokens" + (f", sliding window {window:,}" if window else "")
    rope = document["rope"]
    told = [f"base {rope['base']:,.15g}"] if isinstance(rope["base"], int | float) else []
    if rope["scaling"]:
        told.append(f"scaling {one_line(str(rope['scaling']), 40)}")
    if rope["factor"]:
        told.append(f"factor {rope['factor']}")
    if rope["original_context"]:
        told.append(f"from {rope['original_context']:,} tokens")
    if told:
        yield "rope", ", ".join(told)


def _words(document: Document) -> Iterator[Row]:
    words = document["vocabulary"]
    if words is None:
        yield "vocabulary", f"none. {one_line(document['vocabulary_missing'] or '', _LONGEST)}"
        return
    types = words["types"]
    kinds = ", ".join(f"{n:,} {kind.replace('_', '-')}" for kind, n in sorted(types.items(), key=lambda item: -item[1]))
    yield "vocabulary", f"{words['tokens']:,} tokens: {kinds}"
    pre = f", pre-tokenizer {one_line(words['pre_tokenizer'], 60)}" if words["pre_tokenizer"] else ""
    yield "tokenizer", f"{one_line(words['kind'], 60)}{pre}"
    yield "family", words["family"]
    yield "adds to a text", f"BOS: {_SWITCH[words['add_bos']]}, EOS: {_SWITCH[words['add_eos']]}"
    special = [_special(token) for token in document["special_tokens"]]
    if special:
        yield "special tokens", "\n".join(special)
    template = document["chat_template"]
    if template is None:
        yield "chat template", "none: it completes text, and is no partner in a chat"
        return
    able = [name for name in ("tools", "thinking") if template[name]]
    others = f"; others for {', '.join(one_line(name, 40) for name in template['others'])}" if template["others"] else ""
    yield "chat template", f"{template['characters']:,} characters{', with ' + ' and '.join(able) if able else ''}{others}"


def _special(token: Document) -> str:
    role = f"{one_line(token['role'], 40)} " if token["role"] else ""
    return f"{role}{token['id']} {one_line(token['text'], 60)}{' (ends)' if token['ends'] else ''}"


def _origin(document: Document) -> Iterator[Row]:
    for label in ("sampling", "adapter", "projector"):
        if document[label]:
            yield label, ", ".join(f"{one_line(key, 60)} {one_line(str(value), 60)}" for key, value in document[label].items())
    if document["licence"]:
        yield "licence", one_line(document["licence"], _LONGEST)
    if document["base_models"]:
        yield "made from", "\n".join(one_line(name, _LONGEST) for name in document["base_models"])


def _spread(value: object) -> str:
    """A number; where there is one for each layer, from the least to the most."""
    if isinstance(value, list):
        known = sorted(set(value))
        return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,} by layer" if known else "none"
    return f"{value:,}" if isinstance(value, int) else "none"
