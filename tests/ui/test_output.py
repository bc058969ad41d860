"""Standard output and standard error of every kind."""

from __future__ import annotations

import errno
import io
from typing import TextIO

import pytest

from specdec_cli.errors import SpecdecError
from specdec_cli.ui.output import (
    ErrorOut,
    OutputClosed,
    TextOut,
    can_show,
    can_steer,
    colour_allowed,
    is_file,
    is_terminal,
    same_terminal,
    visible,
)
from tests.ui.terminal import raising, stream

TEXT = "né 日本 😀\r\n"


def written(text: str, *, tty: bool, encoding: str) -> bytes:
    taken: list[bytes] = []
    out = TextOut(stream(taken.append, tty=tty, encoding=encoding))
    out.write(text)
    return b"".join(taken)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252", "latin-1"])
def test_a_pipe_gets_utf8_whatever_the_locale_says(encoding: str) -> None:
    assert written(TEXT, tty=False, encoding=encoding) == TEXT.encode()


def test_a_terminal_gets_the_same_bytes_as_a_pipe() -> None:
    assert written(TEXT, tty=True, encoding="utf-8") == written(TEXT, tty=False, encoding="utf-8")


@pytest.mark.parametrize(("encoding", "expected"), [("ascii", b"n? ?? ?\r\n"), ("cp1252", b"n\xe9 ?? ?\r\n")])
def test_a_terminal_of_another_encoding_gets_what_it_can_show(encoding: str, expected: bytes) -> None:
    assert written(TEXT, tty=True, encoding=encoding) == expected


def test_what_others_printed_stays_before_the_text() -> None:
    taken: list[bytes] = []
    stdout = stream(taken.append)
    stdout.write("before ")
    TextOut(stdout).write("text")
    assert b"".join(taken) == b"before text"


def test_a_stream_without_bytes_gets_text() -> None:
    out = io.StringIO()
    TextOut(out).write(TEXT)
    assert out.getvalue() == TEXT


@pytest.mark.parametrize(
    ("texts", "complete", "expected"),
    [
        (["a"], True, "a\n"),
        (["a\n"], True, "a\n"),
        (["a\n", "\n"], True, "a\n\n"),
        (["a\n", ""], True, "a\n"),
        ([], True, "\n"),
        ([], False, ""),
        (["a"], False, "a\n"),
        (["a\n"], False, "a\n"),
    ],
)
def test_text_ends_in_a_newline(texts: list[str], complete: bool, expected: str) -> None:
    stdout = io.StringIO()
    out = TextOut(stdout)
    for text in texts:
        out.write(text)
    out.end(complete=complete)
    out.end(complete=False)
    assert stdout.getvalue() == expected


@pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, "gone"), ConnectionResetError(errno.ECONNRESET, "gone")])
def test_a_reader_that_has_gone_is_reported_once_and_leaves_nothing_to_flush(error: OSError) -> None:
    stdout = raising(error)
    out = TextOut(stdout)
    with pytest.raises(OutputClosed):
        out.write("text")
    assert stdout.closed
    out.write("more")
    out.end(complete=True)


def test_a_full_disk_is_an_error_that_says_so() -> None:
    out = TextOut(raising(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(SpecdecError, match="No space left on device"):
        out.write("text")


@pytest.mark.parametrize("kind", ["missing", "closed"])
def test_streams_that_are_missing_or_closed_swallow_everything(kind: str) -> None:
    dead: TextIO | None = None
    if kind == "closed":
        dead = io.StringIO()
        dead.close()
    out = TextOut(dead)
    out.write("text")
    out.end(complete=True)
    ErrorOut(dead).write("note")
    assert not is_terminal(dead)
    assert not same_terminal(dead, dead)
    assert is_file(dead)


def test_standard_error_spells_out_what_its_encoding_lacks() -> None:
    taken: list[bytes] = []
    ErrorOut(stream(taken.append, encoding="ascii")).write("日 x\n")
    assert b"".join(taken) == b"\\u65e5 x\n"


def test_standard_error_that_fails_is_given_up() -> None:
    stderr = raising(BrokenPipeError())
    err = ErrorOut(stderr)
    err.write("note")
    assert stderr.closed
    err.write("note")


@pytest.mark.parametrize(
    ("tty", "env", "steer", "colour"),
    [
        (True, {"TERM": "xterm"}, True, True),
        (True, {}, True, True),
        (True, {"NO_COLOR": "1"}, True, False),
        (True, {"NO_COLOR": ""}, True, True),
        (True, {"TERM": "dumb"}, False, False),
        (False, {"TERM": "xterm"}, False, False),
    ],
)
def test_what_a_stream_may_be_given(
    tty: bool, env: dict[str, str], steer: bool, colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdec_cli.ui.output.detect_legacy_windows", lambda: False)
    err = stream(lambda data: None, tty=tty)
    assert can_steer(err, env) == steer
    assert colour_allowed(err, env) == colour


def test_a_console_without_escape_sequences_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.ui.output.detect_legacy_windows", lambda: True)
    assert not can_steer(stream(lambda data: None, tty=True), {})


def test_control_characters_become_visible() -> None:
    assert visible("a\x1b[2Jb\tc\nd\x07\x9b\x7f") == "a\\x1b[2Jb\tc\nd\\x07\\x9b\\x7f"


def test_more_than_ascii_goes_to_a_terminal_that_has_it() -> None:
    utf8, ascii_only = (stream(lambda data: None, tty=True, encoding=encoding) for encoding in ("utf-8", "ascii"))
    assert can_show(utf8, "━", {"TERM": "xterm"})
    assert not can_show(utf8, "━", {"TERM": "dumb"})
    assert not can_show(ascii_only, "━", {"TERM": "xterm"})
    assert not can_show(stream(lambda data: None), "━", {"TERM": "xterm"})
    assert not can_show(None, "━", {})
