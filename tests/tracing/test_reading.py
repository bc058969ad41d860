"""Traces that are whole, cut, damaged or hostile."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdec_cli.errors import UsageError
from specdec_cli.tracing.form import ClosedLine, RoundLine
from specdec_cli.tracing.reading import LONGEST, Faults, lines
from specdec_cli.tracing.summary import summed
from tests.tracing.made import a_trace, written


def test_what_was_written_is_read(tmp_path: Path) -> None:
    faults = Faults()
    found = list(lines(written(tmp_path / "t.jsonl", a_trace()), faults))
    assert found == [*a_trace(), ClosedLine(1, 3)]
    assert faults.sentences() == []


def test_a_cut_trace_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    path.write_bytes(path.read_bytes()[:-80])
    faults = Faults()
    assert len(list(lines(path, faults))) >= 5
    assert len(faults.sentences()) == 1
    assert "The trace is cut: it ends at line 6" in faults.sentences()[0]


def test_a_trace_without_its_last_line_is_known_as_cut(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    faults = Faults()
    assert len(list(lines(path, faults))) == 4
    assert faults.sentences() == ["The trace is cut: it ends at line 4, and the last line is not the closing one."]


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[1, 2]",
        b"\xff\xfe",
        b'{"line": "else"}',
        b'{"line": ["round"]}',
        b'{"line": "round"}',
        b'{"line": "end", "run": NaN}',
        b'{"line": "closed", "runs": 1e999, "rounds": 1}',
        b'{"line": "closed", "runs": ' + b"9" * 5000 + b', "rounds": 1}',
        b'{"line": "closed", "runs": 1e300, "rounds": 1}',
        b'{"line": "closed", "runs": ' + b"9" * 30 + b', "rounds": 1}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"x" * (LONGEST + 10),
        b"",
    ],
    ids=lambda line: str(line[:24]),
)
def test_a_damaged_line_is_named_and_left_out(line: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, line + b"\n", *rest]))
    faults = Faults()
    assert len(list(lines(path, faults))) == 7
    assert len(faults.sentences()) == 1
    assert faults.sentences()[0].startswith("Line 2 is left out: ")


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    with pytest.raises(UsageError) as caught:
        list(lines(tmp_path / "t.jsonl", Faults()))
    assert caught.value.why == "It is empty."


def test_many_damaged_lines_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    path.write_bytes(path.read_bytes() + b"{\n" * 50)
    faults = Faults()
    list(lines(path, faults))
    assert len(faults.sentences()) == 4
    assert faults.sentences()[-1] == "47 more lines are damaged and left out."


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (b"", "is no trace"),
        (b"GGUF\x00\x00", "is no trace"),
        (b'{"schema": "specdec.bench/1"}\n', "is no trace"),
        (b'{"schema": "specdec.trace/1", "line": "head"}\n', "is no trace"),
        (b'{"schema": "specdec.trace/2"}\n', "another version"),
        (b'{"schema": ' + b"[" * 50_000, "is no trace"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(start: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(start)
    with pytest.raises(UsageError, match=why):
        list(lines(tmp_path / "f", Faults()))


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        list(lines(tmp_path / name, Faults()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_value_in_any_place_breaks_the_reader(data: st.DataObject, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    row = data.draw(st.sampled_from(rows[1:]))
    key = data.draw(st.sampled_from(sorted(row)))
    row[key] = data.draw(JSON)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    summed(lines(path, Faults()))


def test_a_long_trace_is_streamed(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    rows = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines([*rows[:2], *rows[3:4] * 3_000, *rows[-2:]])
    list(lines(written(tmp_path / "first.jsonl", a_trace()), Faults()))  # what is read once and kept
    size = path.stat().st_size
    tracemalloc.start()
    n = sum(isinstance(line, RoundLine) for line in lines(path, Faults()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n == 3_000
    assert peak < size / 4
