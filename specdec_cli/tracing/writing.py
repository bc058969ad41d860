"""Writes a trace, line by line. Whatever goes wrong with the file costs the trace, not the run."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO

from specdec_cli.bench.records import to_json
from specdec_cli.errors import UsageError
from specdec_cli.tracing.form import LINES, SCHEMA, AnyLine, ClosedLine, Head, Line, RoundLine, RunLine

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
START = f'{{"schema": "{SCHEMA.partition("/")[0]}/'.encode()  # how every trace begins, of whatever version


def create(path: Path, lost: Callable[[str], None], streams: tuple[TextIO | None, ...] = ()) -> TraceFile:
    """Open the file of a trace; an older trace is written over once the first line comes. lost: hears if the trace ends early.

    streams: those that the run itself writes to. Raises UsageError.
    """
    fix = "Name another file: --trace FILE.jsonl"
    if str(path) == "-" or any(_is_same(path, stream) for stream in streams):
        raise UsageError(f"--trace cannot write to {path}.", "What the run itself writes goes there.", fix)
    try:
        found = path.stat() if path.exists() else None
        if found is not None and stat.S_ISREG(found.st_mode):
            with path.open("rb") as old:
                start = old.read(len(START))
            if start not in (b"", START):
                raise UsageError(f"{path} is there already.", "It is no trace, and --trace would write over it.", fix)
            return TraceFile(path.open("r+b"), path, lost, older=bool(start))
        return TraceFile(path.open("wb"), path, lost, fresh=found is None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The trace {path} cannot be written.", f"{reason}.", fix) from None


class TraceFile:
    """A trace that is being written. A context manager; on leaving, the last line is written.

    fresh: the file was made for it, and is taken away again where it got no line. older: it holds an older trace, which the
    first line writes over.
    """

    def __init__(
        self, file: BinaryIO, path: Path, lost: Callable[[str], None], *, fresh: bool = False, older: bool = False
    ) -> None:
        self._file: BinaryIO | None = file
        self._path, self._lost, self._fresh, self._older = path, lost, fresh, older
        self._n_lines = self._n_rounds = 0
        self.n_runs = 0

    def write(self, line: AnyLine) -> None:
        """Write a line, and hand it to the system, so that it can be read at once."""
        if self._file is None:
            return
        kind = LINES[type(line)]
        start = {"schema": SCHEMA} if kind is Line.HEAD else {}
        document = start | {"line": kind.value} | to_json(line)
        text = _ENCODER.encode(document)
        try:
            if isinstance(line, Head) and self._older:
                self._file.truncate()
            self._file.write(text.encode("utf-8", "backslashreplace") + b"\n")
            self._file.flush()
        except (OSError, ValueError) as error:
            self._give_up(error)
            return
        self._n_lines += 1
        self.n_runs += isinstance(line, RunLine)
        self._n_rounds += isinstance(line, RoundLine)

    def close(self) -> None:
        if self._n_lines:
            self.write(ClosedLine(self.n_runs, self._n_rounds))
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
            if not self._n_lines and self._fresh and self._path.is_file():
                self._path.unlink()
        except OSError:
            return  # every line has been handed over already

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _give_up(self, error: Exception) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError, ValueError):  # what it still holds cannot be written either
                file.close()
        reason = getattr(error, "strerror", None) or error
        self._lost(f"The trace {self._path} ends after {self._n_lines} lines: {reason}. The run goes on without it.")


def _is_same(path: Path, stream: TextIO | None) -> bool:
    """Whether the path leads to where the stream writes."""
    try:
        if stream is None or path.samefile(os.devnull):
            return False
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except (OSError, ValueError):
        return False
