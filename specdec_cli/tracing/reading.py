"""Reads a trace line by line. A line that is damaged is named and left out; a file that is cut is known as such."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from specdec_cli.bench.records import BadRecord, from_json
from specdec_cli.errors import UsageError
from specdec_cli.tracing.form import KINDS, SCHEMA, AnyLine, ClosedLine, Head, Line, RoundLine
from specdec_cli.units import visible

N = TypeVar("N", int, float)

LONGEST = 1 << 24  # bytes of a line
_LARGEST = 2**63  # past this a number is no count, size, time or logit, and sums of it would overflow
_N_NAMED = 3  # damaged lines that are named; the rest is counted


@dataclass(slots=True)
class Faults:
    """What was wrong with a file."""

    damaged: list[str] = field(default_factory=list)
    n_damaged: int = 0
    cut: str = ""

    def add(self, number: int, why: str) -> None:
        self.n_damaged += 1
        if self.n_damaged <= _N_NAMED:
            self.damaged.append(f"Line {number} is left out: {visible(why)}.")

    def sentences(self) -> list[str]:
        rest = self.n_damaged - len(self.damaged)
        more = [f"{rest:,} more lines are damaged and left out."] if rest else []
        return [*self.damaged, *more, *([self.cut] if self.cut else [])]


def lines(path: Path, faults: Faults) -> Iterator[AnyLine]:
    """The lines of a trace, its head first. faults: what is wrong, complete once all lines are read. Raises UsageError."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} cannot be read as a trace.", "It is no file of its own, and a trace is read twice.", "")
        with path.open("rb") as file:
            yield from _lines(file, path, faults)
    except OSError as error:
        raise UsageError(
            f"The trace {path} cannot be read.", f"{error.strerror or error}.", "specdec run MODEL.gguf --trace FILE makes one."
        ) from None


def _lines(file: BinaryIO, path: Path, faults: Faults) -> Iterator[AnyLine]:
    yield _head(file.readline(LONGEST), path)
    number, closed, whole = 1, False, True
    while data := file.readline(LONGEST):
        number += 1
        whole = data.endswith(b"\n")
        if not whole and len(data) == LONGEST:
            faults.add(number, f"it is longer than {LONGEST >> 20} MiB")
            while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            continue
        if not whole:
            break
        try:
            line = _record(_parsed(data))
        except (BadRecord, ValueError, RecursionError) as error:
            faults.add(number, _reason(error))
            continue
        if isinstance(line, Head):
            faults.add(number, "a second head")
            continue
        closed = isinstance(line, ClosedLine)
        yield line
    if not closed:
        how = "line is incomplete" if not whole else "line is not the closing one"
        faults.cut = f"The trace is cut: it ends at line {number}, and the last {how}."


def _head(data: bytes, path: Path) -> Head:
    fix = "specdec run MODEL.gguf --trace FILE makes one."
    if not data:
        raise UsageError(f"{path} is no trace.", "It is empty.", fix)
    try:
        found = _parsed(data)
        schema = found.get("schema")
        if isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0] + "/") and schema != SCHEMA:
            raise UsageError(
                f"{path} is a trace of another version.",
                f"It says {visible(schema[:40])}; this specdec reads {SCHEMA}.",
                "Read it with the version that wrote it.",
            )
        if schema != SCHEMA:
            raise UsageError(f"{path} is no trace.", f"Line 1 does not say {SCHEMA}.", fix)
        head = _record(found)
        if not isinstance(head, Head):
            raise BadRecord("it is no head")
    except (BadRecord, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no trace.", f"Line 1: {visible(_reason(error))}.", fix) from None
    return head


def _parsed(data: bytes) -> dict[str, Any]:
    found = json.loads(data, parse_constant=_no_number, parse_float=_number, parse_int=_integer)
    if not isinstance(found, dict):
        raise BadRecord("it is no object")
    return found


def _record(found: dict[str, Any]) -> AnyLine:
    kind = found.get("line")
    if not isinstance(kind, str) or kind not in list(Line):
        raise BadRecord(f"line is {str(kind)[:40]!r}, not one of {', '.join(Line)}")
    line = from_json(KINDS[Line(kind)], found, kind)
    if isinstance(line, RoundLine):
        _check(line)
    return line


def _check(line: RoundLine) -> None:
    """Refuse counts that contradict each other."""
    if not 0 <= line.accepted <= len(line.drafted):
        raise BadRecord(f"round.accepted is {line.accepted} of {len(line.drafted)} drafted")
    if len(line.emitted) > line.accepted + 1:
        raise BadRecord(f"round.emitted has {len(line.emitted)} tokens after {line.accepted} accepted")
    if min(line.draft_s, line.pass_s, line.host_s, line.index, line.position) < 0:
        raise BadRecord("a number of the round is negative")


def _no_number(word: str) -> None:
    raise BadRecord(f"{word} is no number")


def _number(text: str) -> float:
    return _bounded(float(text), text)


def _integer(text: str) -> int:
    return _bounded(int(text), text)


def _bounded(value: N, text: str) -> N:
    if not -_LARGEST < value < _LARGEST:
        raise BadRecord(f"the number {text[:20]} is too large")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON ({error.msg})"
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)[:200]
