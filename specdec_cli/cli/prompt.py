"""The prompt: from the command line, a file or standard input, as text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from specdec_cli.errors import PromptError, UsageError
from specdec_cli.settings.resolve import Settings
from specdec_cli.textfile import decoded, read_bytes, unix_lines

_WAYS = 'Give it as the second word ("PROMPT"), with -p TEXT or -f FILE, or through a pipe.'
_FILE = "Use -f FILE, or - for standard input."


def read_prompt(settings: Settings) -> str:
    """The prompt that the settings point to; else what comes through a pipe. Raises PromptError, UsageError."""
    text = settings.maybe("prompt", str)
    if text is not None:
        return _from_argument(text)
    file = settings.maybe("file", Path)
    if file is not None and str(file) != "-":
        return _from_bytes(read_bytes(file, "prompt file", _FILE), f"The prompt file {file}")
    if file is None and _is_terminal():
        raise UsageError("There is no prompt.", "None was given, and standard input is a terminal.", _WAYS)
    data = _read_standard_input()
    if not data and file is None:
        raise UsageError("There is no prompt.", "None was given, and standard input is empty.", _WAYS)
    return _from_bytes(data, "Standard input")


def _from_argument(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        # Bytes that are no text reach Python as lone surrogates.
        offset = len(os.fsencode(text[: error.start]))
        raise PromptError(
            "The prompt is not text.", f"Its byte {offset} does not decode as {sys.getfilesystemencoding()}."
        ) from None
    return unix_lines(text)


def _from_bytes(data: bytes, place: str) -> str:
    """The text of bytes, without the newline that ends a file's last line."""
    text = decoded(data, place)
    if text is None:
        raise PromptError(f"{place} is empty.", "", "Use -p '' to start from nothing.")
    return text.removesuffix("\n")


def _is_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except (OSError, ValueError):
        return False


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        return b""
    try:
        return sys.stdin.buffer.read()
    except (OSError, ValueError) as error:
        raise PromptError("Standard input cannot be read.", str(error), _WAYS) from None
