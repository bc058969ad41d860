"""Writes to standard output and standard error, whatever they are: terminals, pipes, files, closed or missing.

Text goes to standard output as UTF-8 bytes, whatever the locale or PYTHONIOENCODING say, and without newline translation, so
that a pipe and a file hold the same bytes on every platform. The one exception is a terminal that says it reads another
encoding: it gets that encoding, with "?" for what it cannot show. Nothing is taken out: control characters that a model emits
(escape sequences included) reach the terminal like they reach a file.

Text that a run has completed ends in a newline: one is added where the text does not end in one, also where it is empty.
Newlines that the model wrote itself stay, all of them.

Standard output that is closed or missing from the start swallows the text. One whose reader has gone raises OutputClosed.
Standard error never raises: what it cannot take is lost.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TextIO, TypeGuard

from rich.console import detect_legacy_windows

from specdec_cli.errors import SpecdecError

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
STYLING = re.compile(r"\x1b\[[0-9;]*m")  # colours and weights: the one kind of escape sequence that moves nothing


class OutputClosed(Exception):
    """Whoever read standard output has gone: nobody is left to write for, and the process should end quietly."""


def visible(text: str) -> str:
    """The text with control characters other than newline and tab spelled out, so that they steer no terminal."""
    return text.translate(CONTROLS)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person may be looking at what is written to the stream."""
    return is_open(stream) and stream.isatty()


def is_open(stream: TextIO | None) -> TypeGuard[TextIO]:
    """Whether the stream is there and has not been closed."""
    return stream is not None and not getattr(stream, "closed", False)


def is_file(stream: TextIO | None) -> bool:
    """Whether nobody shows what is written to the stream while it is written: a regular file, the null device, nothing."""
    if not is_open(stream):
        return True
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return True  # a buffer in memory
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not stream.isatty())


def same_terminal(first: TextIO | None, second: TextIO | None) -> bool:
    """Whether both streams write to one terminal, and so share its cursor."""
    if not (is_open(first) and is_open(second) and first.isatty() and second.isatty()):
        return False
    try:
        return os.path.sameopenfile(first.fileno(), second.fileno())
    except (OSError, ValueError):
        return True  # terminals that are not files of this system: only a console has them


def can_steer(stream: TextIO | None, env: Mapping[str, str]) -> bool:
    """Whether the stream is a terminal that understands cursor movements and styles."""
    return is_terminal(stream) and env.get("TERM") not in ("dumb", "unknown") and not detect_legacy_windows()


def colour_allowed(stream: TextIO | None, env: Mapping[str, str]) -> bool:
    """Whether the stream may be given colours and weights."""
    return can_steer(stream, env) and not env.get("NO_COLOR")


def can_show(stream: TextIO | None, characters: str, env: Mapping[str, str]) -> bool:
    """Whether characters beyond ASCII reach a person: the stream is a terminal, draws more than text, and has them."""
    if not can_steer(stream, env) or stream is None:
        return False
    try:
        characters.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def reader_has_gone(error: OSError) -> bool:
    """Whether a failed write means that nobody reads any more. Windows calls that an invalid argument."""
    return isinstance(error, ConnectionError) or (os.name == "nt" and error.errno == errno.EINVAL)


class TextOut:
    """Standard output while a run writes text to it."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if is_open(stream) else None
        self._binary = getattr(self._stream, "buffer", None)
        self._encoding = "utf-8"
        if self._stream is not None and (self._binary is None or self._stream.isatty()):
            self._encoding = self._stream.encoding or "utf-8"
        self._last = ""  # last character of the text under way

    def write(self, text: str) -> str:
        """Write and flush text; returns it as it is shown. Raises OutputClosed, SpecdecError."""
        if not text:
            return text
        self._last = text[-1]
        data = text.encode(self._encoding, "replace")
        shown = data.decode(self._encoding)
        if self._stream is None:
            return shown
        try:
            if self._binary is not None:
                self._stream.flush()  # what others wrote through the text layer comes first
                self._binary.write(data)
                self._binary.flush()
            else:
                self._stream.write(shown)
                self._stream.flush()
        except OSError as error:
            self._drop()
            if reader_has_gone(error):
                raise OutputClosed from error
            raise SpecdecError(
                "The text could not be written to standard output.",
                f"The system says: {error.strerror or error}.",
                "Free space where the output goes, or send it elsewhere.",
            ) from error
        return shown

    def end(self, *, complete: bool) -> None:
        """End the text under way in a newline. Text that is not complete gets one only where something was written."""
        if (complete or self._last) and self._last != "\n":
            self.write("\n")
        self._last = ""

    def _drop(self) -> None:
        """Give the stream up. Closed, it has nothing left that the interpreter would try to flush, and report, on exit."""
        if self._stream is not None:
            close_quietly(self._stream)
        self._stream = None


class ErrorOut:
    """Standard error while a run tells about itself."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if is_open(stream) else None

    def write(self, text: str) -> None:
        """Write and flush text. Characters outside the stream's encoding are spelled out."""
        if self._stream is None:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except OSError:
            close_quietly(self._stream)
            self._stream = None


def close_quietly(stream: TextIO) -> None:
    """Close a stream that cannot be written to."""
    with suppress(OSError):
        stream.close()
