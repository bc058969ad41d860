"""For commands whose product is an answer: a display while it is sought, then the answer on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.document import plain
from specdec_cli.ui.output import OutputClosed, TextOut, colour_allowed, is_terminal
from specdec_cli.ui.screen import terminal_size
from specdec_cli.ui.sinks import Display, Sink, open_sink

_NO_LIMIT = 100_000  # columns: what goes to another program is not wrapped
# JSON's escapes of what else would reach a terminal as a command.
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def open_display(settings: Settings) -> Sink:
    """What shows progress and notices, on standard error. Those about the settings come first."""
    sink = _sink(settings)
    for notice in settings.notices:
        sink.notice(notice)
    return sink


def tell(settings: Settings, sentence: str) -> None:
    """Say something on standard error once the answer has been written."""
    with _sink(settings) as sink:
        sink.notice(sentence)


def _sink(settings: Settings) -> Sink:
    display = Display(settings.value("json", bool), settings.value("quiet", bool), settings.value("live", bool))
    return open_sink(display, sys.stdout, sys.stderr, os.environ)


def columns() -> int:
    """Columns that the answer may take."""
    return terminal_size(sys.stdout)[0] if is_terminal(sys.stdout) else _NO_LIMIT


def colour() -> bool:
    """Whether the answer may have colours and weights."""
    return colour_allowed(sys.stdout, os.environ)


def answer(text: str) -> None:
    """Write the answer and end it in a newline. Raises BrokenPipeError where nobody reads it."""
    out = TextOut(sys.stdout)
    try:
        out.write(text)
        out.end(complete=True)
    except OutputClosed as closed:
        raise BrokenPipeError from closed


def answer_json(document: Mapping[str, object]) -> None:
    """Write the answer as one JSON document in one line."""
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
    answer(text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode("utf-8"))
