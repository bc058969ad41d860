"""The prompt: from the command line, a file or standard input, as text."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

from specdec_cli.errors import PromptError, UsageError
from specdec_cli.settings.resolve import Settings

# Longest first: the mark of UTF-16 is the beginning of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WAYS = 'Give it as the second word ("PROMPT"), with -p TEXT or -f FILE, or through a pipe.'


def read_prompt(settings: Settings) -> str:
    """The prompt that the settings point to; else what comes through a pipe. Raises PromptError, UsageError."""
    text = settings.maybe("prompt", str)
    if text is not None:
        return _from_argument(text)
    file = settings.maybe("file", Path)
    if file is not None and str(file) != "-":
        return _from_bytes(_read_file(file), f"The prompt file {file}")
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
    return _lines(text)


def _from_bytes(data: bytes, place: str) -> str:
    """The text of bytes, without a mark of their encoding, and without the newline that ends a file's last line."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if len(data) == len(mark):
        raise PromptError(f"{place} is empty.", "", "Use -p '' to start from nothing.")
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(mark) + error.start
        raise PromptError(
            f"{place} is not text.",
            f"Its byte {offset} (0x{data[offset]:02x}) does not decode as {encoding.upper()}: {error.reason}.",
            "Save it as UTF-8.",
        ) from None
    return _lines(text).removesuffix("\n")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise PromptError(
            f"There is no prompt file {file}.", f"The current folder is {Path.cwd()}.", "Use -f FILE, or - for standard input."
        ) from None
    except IsADirectoryError:
        raise PromptError(f"The prompt file {file} is a folder.", "", "Use -f FILE.") from None
    except (OSError, ValueError) as error:
        if file.is_dir():  # Windows calls it a lack of permission
            raise PromptError(f"The prompt file {file} is a folder.", "", "Use -f FILE.") from None
        raise PromptError(f"The prompt file {file} cannot be read.", str(error)) from None


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
