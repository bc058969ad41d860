"""The line: turns from a pipe, the editor's keys, its history and its completion."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input

from specdec_cli.errors import PromptError
from specdec_cli.ui import line as module
from specdec_cli.ui.line import EditedLine, PipedLines, SlashCompleter, Takes, TypedHistory, open_line
from specdec_cli.ui.output import ErrorOut
from tests.ui.terminal import Terminal

COMMANDS = {"read": Takes(files=True), "regen": Takes(), "markdown": Takes(("on", "off")), "k": Takes(("auto",))}


def piped(data: bytes, *, whole: bool = False) -> list[str | None]:
    lines = PipedLines(io.TextIOWrapper(io.BytesIO(data)), whole=whole)
    found = []
    while (text := lines.read()) is not None:
        found.append(text)
    return [*found]


@pytest.mark.parametrize(
    ("data", "turns"),
    [
        (b"", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\n\ntwo\n", ["one", "", "two"]),
        (b"one \\\ntwo\\\n", ["one \ntwo"]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        ("eins\nzw\u00f6lf\n".encode("utf-16"), ["eins", "zw\u00f6lf"]),
    ],
)
def test_each_line_of_a_pipe_is_a_turn(data: bytes, turns: list[str]) -> None:
    assert piped(data) == turns


def test_a_pipe_may_hold_one_turn() -> None:
    assert piped(b"one\ntwo\n", whole=True) == ["one\ntwo"]


def test_a_line_that_is_no_text_is_told_by_its_number_and_the_next_one_is_read() -> None:
    lines = PipedLines(io.TextIOWrapper(io.BytesIO(b"one\n\xff\xff\nthree\n")), whole=False)
    assert lines.read() == "one"
    with pytest.raises(PromptError, match="Line 2 of standard input"):
        lines.read()
    assert lines.read() == "three"


def test_lines_without_an_editor_get_a_sign_where_a_terminal_can_do_no_more() -> None:
    terminal = Terminal()
    lines = PipedLines(io.TextIOWrapper(io.BytesIO(b"a\\\nb\n")), whole=False, sign=ErrorOut(terminal.stream()))
    assert lines.read() == "a\nb"
    assert lines.read() is None
    assert terminal.rows() == [">   >"]  # what is typed is shown by the terminal itself


def test_without_a_terminal_there_is_no_editor() -> None:
    tty = Terminal().stream()
    pipe = io.TextIOWrapper(io.BytesIO(b""))
    for streams in ((pipe, tty, tty), (None, tty, tty)):
        line = open_line(streams, {}, commands={}, history=None, vi=False, whole=False)
        assert isinstance(line, PipedLines)
        assert not line.edits


Typed = Callable[..., list[str | None]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    """What the editor returns for keys; the last item is what it returns in the end."""
    with create_pipe_input() as keys:
        monkeypatch.setattr(module, "create_input", lambda _stdin: keys)

        def press(text: str, history: Path | None = None, *, first: str = "", vi: bool = False) -> list[str | None]:
            line = EditedLine(Terminal(80, 24).stream(), COMMANDS, history, vi=vi)
            keys.send_text(text)
            found = [line.read(first)]
            while found[-1] is not None:
                found.append(line.read())
            return found

        yield press


EDITOR = pytest.mark.skipif(sys.platform == "win32", reason="the keys come as those of a Unix terminal")


@EDITOR
@pytest.mark.parametrize(
    ("keys", "turns"),
    [
        ("one\rtwo\r\x04", ["one", "two", None]),
        ("one\\\rtwo\r\x04", ["one\ntwo", None]),
        ("one\x1b\rtwo\r\x04", ["one\ntwo", None]),
        ("\x1b[200~a\nb\n  c\x1b[201~\r\x04", ["a\nb\n  c", None]),
        ("wrong\x03right\r\x04", ["right", None]),
        ("\x03\x03", [None]),
        ("text\x03\x03", [None]),
        ("\x03text\x03more\r\x04", ["more", None]),
        ("\x03one\r\x03two\r\x04", ["one", "two", None]),
        ("world\x01hello \r\x04", ["hello world", None]),
        ("/mark\t\t of\t\r\x04", ["/markdown off", None]),
    ],
)
def test_keys_of_the_editor(typed: Typed, keys: str, turns: list[str | None]) -> None:
    assert typed(keys) == turns


@EDITOR
def test_the_keys_of_vi(typed: Typed) -> None:
    assert typed("one two\x1b0dw\riwords \x1b\rd\x1ba\r\x04", vi=True)[0] == "two"


@EDITOR
def test_a_line_may_hold_something_already(typed: Typed) -> None:
    assert typed("!\r\x04", first="again") == ["again!", None]
    assert typed("!\x03new\r\x04", first="again") == ["", "new", None]  # what was offered is given back


@EDITOR
def test_the_history_is_kept_for_its_owner_alone_but_for_what_begins_with_a_space(typed: Typed, tmp_path: Path) -> None:
    file = tmp_path / "data" / "history"
    typed("first\r secret\rseveral\x1b\rlines\r\x04", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "secret" not in file.read_text(encoding="utf-8")
    assert list(TypedHistory(file).load_history_strings()) == ["several\nlines", "first"]
    file.chmod(0)
    if os.access(file, os.R_OK):  # nothing is out of reach for root
        return
    assert typed("one\r\x04", file) == ["one", None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/r", ["/read", "/regen"]),
        ("/k a", ["auto"]),
        ("/m o", ["on", "off"]),
        ("/r o", []),
        ("/nothing ", []),
        ("hello /r", []),
        ("/r\nx", []),
    ],
)
def test_completion(text: str, found: list[str]) -> None:
    completions = SlashCompleter(COMMANDS).get_completions(Document(text), CompleteEvent())
    assert [each.text for each in completions] == found


def test_completion_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes with blanks.txt").touch()
    monkeypatch.chdir(tmp_path)
    completions = list(SlashCompleter(COMMANDS).get_completions(Document("/read notes w"), CompleteEvent()))
    assert [each.text for each in completions] == ["ith blanks.txt"]
