"""The prompt comes from one place, and is text."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.cli.prompt import read_prompt
from specdec_cli.errors import EXIT_COULD_NOT_START, PromptError, SpecdecError, UsageError
from specdec_cli.settings.resolve import Raw, resolve


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes through a pipe, unless a test says so."""
    monkeypatch.setattr(sys, "stdin", _Terminal())


def _pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))


def _prompt(**given: Raw) -> str:
    return read_prompt(resolve(given, {}))


def _error(kind: type[SpecdecError], **given: Raw) -> SpecdecError:
    with pytest.raises(kind) as caught:
        _prompt(**given)
    assert caught.value.exit_code == EXIT_COULD_NOT_START
    return caught.value


def _file(folder: Path, data: bytes) -> str:
    path = folder / "prompt.txt"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("text", ["hello", "", " ", "\n", "two\nlines\n", "d\u00e9j\u00e0 \U0001f600", "back\\nslash"])
def test_a_prompt_on_the_command_line_is_taken_as_it_is(text: str) -> None:
    assert _prompt(prompt=text) == text


def test_a_prompt_given_leaves_standard_input_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    _pipe(monkeypatch, b"piped")
    assert _prompt(prompt="given") == "given"
    assert sys.stdin.buffer.read() == b"piped"


@pytest.mark.parametrize(
    "data",
    [
        "h\u00e9 \U0001f600\nx".encode(),
        b"\xef\xbb\xbf" + "h\u00e9 \U0001f600\nx".encode(),
        b"\xff\xfe" + "h\u00e9 \U0001f600\nx".encode("utf-16-le"),
        b"\xfe\xff" + "h\u00e9 \U0001f600\nx".encode("utf-16-be"),
        b"\xff\xfe\x00\x00" + "h\u00e9 \U0001f600\nx".encode("utf-32-le"),
        "h\u00e9 \U0001f600\r\nx\r\n".encode(),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16 le", "utf-16 be", "utf-32 le", "crlf"],
)
@pytest.mark.parametrize("way", ["file", "pipe", "hyphen"])
def test_encodings_and_line_ends_do_not_show(data: bytes, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "file":
        text = _prompt(file=_file(tmp_path, data))
    else:
        _pipe(monkeypatch, data)
        text = _prompt(file="-") if way == "hyphen" else _prompt()
    assert text == "h\u00e9 \U0001f600\nx"


@pytest.mark.parametrize(("data", "text"), [(b"a\n", "a"), (b"a\n\n", "a\n"), (b"\n", ""), (b" ", " "), (b"a\r", "a\r")])
def test_the_newline_that_ends_a_file_is_not_part_of_the_prompt(data: bytes, text: str, tmp_path: Path) -> None:
    assert _prompt(file=_file(tmp_path, data)) == text


# A text that begins with NUL in UTF-16 has the mark of UTF-32.
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_text_comes_back(encoding: str, text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _pipe(monkeypatch, f"{text}\n".encode(encoding))
        assert _prompt() == text


@pytest.mark.parametrize(
    ("data", "offset", "encoding"),
    [
        (b"abc\xff", 3, "UTF-8"),
        (b"\xef\xbb\xbfab\x80c", 5, "UTF-8"),
        (b"ab\xe2\x82", 2, "UTF-8"),
        (b"\xff\xfea\x00\x00\xd8", 4, "UTF-16-LE"),
        (b"\xfe\xff\x00a\x00", 4, "UTF-16-BE"),
    ],
)
def test_bytes_that_are_no_text_are_named_by_their_place(data: bytes, offset: int, encoding: str, tmp_path: Path) -> None:
    error = _error(PromptError, file=_file(tmp_path, data))
    assert "is not text" in error.what
    assert f"Its byte {offset} (0x{data[offset]:02x})" in error.why
    assert encoding in error.why


def test_bytes_on_the_command_line_that_are_no_text_are_named_by_their_place() -> None:
    assert "Its byte 2" in _error(PromptError, prompt="ab\udcff").why


def test_a_missing_file_is_named_with_where_it_was_looked_for() -> None:
    error = _error(PromptError, file="no-such-prompt.txt")
    assert error.what == "There is no prompt file no-such-prompt.txt."
    assert str(Path.cwd()) in error.why


def test_a_folder_is_no_prompt(tmp_path: Path) -> None:
    assert "is a folder" in _error(PromptError, file=str(tmp_path)).what


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_said_to_be_empty(data: bytes, tmp_path: Path) -> None:
    error = _error(PromptError, file=_file(tmp_path, data))
    assert "is empty" in error.what
    assert error.fix == "Use -p '' to start from nothing."


def test_without_a_prompt_on_a_terminal_the_ways_to_give_one_are_named() -> None:
    error = _error(UsageError)
    assert "a terminal" in error.why
    assert "-f FILE" in error.fix


def test_an_empty_pipe_is_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    _pipe(monkeypatch, b"")
    assert "standard input is empty" in _error(UsageError).why
    assert "is empty" in _error(PromptError, file="-").what


def test_a_closed_standard_input_is_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert _error(UsageError).what == "There is no prompt."
    closed = io.TextIOWrapper(io.BytesIO(b"x"))
    closed.close()
    monkeypatch.setattr(sys, "stdin", closed)
    assert "cannot be read" in _error(PromptError).what


def test_two_places_for_a_prompt_are_refused_by_both_names() -> None:
    error = _error(UsageError, prompt="a", file="b")
    assert error.what == "--prompt and --file cannot be used together."
