"""The file of a trace: what it is opened over, and what happens when it cannot be written."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from specdec_cli.errors import UsageError
from specdec_cli.tracing.writing import TraceFile, create
from tests.tracing.made import a_trace, deaf, head, run_line, written


class Full(io.BytesIO):
    """A disk with room for so many lines."""

    def __init__(self, n_lines: int, error: Exception) -> None:
        super().__init__()
        self._left, self._error = n_lines, error

    def write(self, data: object) -> int:
        if self._left <= 0:
            raise self._error
        self._left -= 1
        return super().write(data)  # type: ignore[arg-type]


def test_every_line_is_there_before_the_file_is_closed(tmp_path: Path) -> None:
    with create(tmp_path / "t.jsonl", deaf) as trace:
        for i, line in enumerate(a_trace()):
            trace.write(line)
            assert len((tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()) == i + 1
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["line"] for line in lines] == ["head", "run", "round", "round", "round", "end", "closed"]
    assert (lines[0]["schema"], lines[-1]["runs"], lines[-1]["rounds"]) == ("specdec.trace/1", 1, 3)


def test_an_older_trace_is_written_over_when_the_first_line_comes(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    before = path.read_bytes()
    with create(path, deaf):
        pass
    assert path.read_bytes() == before
    written(path, [head()])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_a_file_that_is_no_trace_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is there already"):
        create(tmp_path / "notes.txt", deaf)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_file_that_got_no_line_is_taken_away(tmp_path: Path) -> None:
    with create(tmp_path / "t.jsonl", deaf):
        assert (tmp_path / "t.jsonl").exists()
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize("name", ["-", ".", "missing/t.jsonl"])
def test_what_cannot_be_a_trace_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"cannot (write|be written)"):
        create(Path(name), deaf)


def test_where_the_run_writes_its_text_no_trace_goes(tmp_path: Path) -> None:
    with (tmp_path / "out.txt").open("w", encoding="utf-8") as out, pytest.raises(UsageError, match="cannot write to"):
        create(tmp_path / "out.txt", deaf, (out, None))


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BrokenPipeError(32, "Broken pipe"), ValueError("closed")]
)
def test_a_file_that_fails_is_given_up_with_one_sentence(error: Exception) -> None:
    heard: list[str] = []
    trace = TraceFile(Full(2, error), Path("t.jsonl"), heard.append)
    for line in a_trace():
        trace.write(line)
    trace.close()
    assert len(heard) == 1
    assert heard[0].startswith("The trace t.jsonl ends after 2 lines: ")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="has no /dev/full")
def test_a_full_disk_costs_the_trace_alone() -> None:
    heard: list[str] = []
    with create(Path("/dev/full"), heard.append) as trace:
        trace.write(head())
        trace.write(run_line())
    assert len(heard) == 1
    assert "No space left on device" in heard[0]
