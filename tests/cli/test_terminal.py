"""specdec run on a terminal: the same bytes of text as elsewhere, a footer that leaves nothing, Ctrl-C from the keyboard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, LIMIT_S, Done, environment, run
from tests.ui.terminal import Terminal

pytestmark = [pytest.mark.model, pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")]

STORY = ("demo", "Once upon a time there was a lighthouse", "--raw", "-n", "24", "--temp", "0")
EMOJI = ("--grammar", 'root ::= "\U0001f600\u6f22\u5b57\u00e9\U0001f469\u200d\U0001f469\u200d\U0001f467"')
ESCAPE = "\x1b"
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Watched:
    """The command on a terminal of its own, and what that terminal shows."""

    def __init__(self, *arguments: str, columns: int = 80, env: Mapping[str, str] | None = None) -> None:
        import pexpect

        self.terminal = Terminal(columns, 24)
        self.raw = ""
        self._child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "run", *arguments, "-t", "1"],
            dimensions=(24, columns),
            echo=False,
            timeout=LIMIT_S,
            encoding="utf-8",
            env=environment({"TERM": "xterm-256color", **(env or {})}),
        )

    def press(self, keys: str) -> None:
        self._child.send(keys)

    def until(self, text: str) -> None:
        """Follow the screen until it shows the text."""
        deadline_s = time.monotonic() + LIMIT_S
        while text not in "\n".join(self.terminal.lines()):
            assert time.monotonic() < deadline_s
            assert self._read(), self.raw

    def end(self) -> int:
        """Follow it to the end; the exit code."""
        while self._read():
            pass
        self._child.close()
        return int(self._child.exitstatus)

    def _read(self) -> bool:
        import pexpect

        try:
            piece = self._child.read_nonblocking(4096, timeout=LIMIT_S)
        except pexpect.EOF:
            return False
        self.raw += piece
        self.terminal.feed(piece.replace("\r\n", "\n"))
        return True


@pytest.fixture(scope="module")
def piped() -> Done:
    return run(*STORY, "-q")


def test_text_is_the_same_bytes_in_a_pipe_in_a_file_and_on_a_terminal(piped: Done, tmp_path: Path) -> None:
    import tty

    command = [*COMMAND, "run", *STORY, "-t", "1"]
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, env=environment(), timeout=LIMIT_S, check=True)
    assert (tmp_path / "out").read_bytes() == piped.out
    ours, theirs = os.openpty()
    tty.setraw(theirs)  # else the terminal itself adds carriage returns
    with (tmp_path / "err").open("wb") as err:
        subprocess.run(command, stdout=theirs, stderr=err, env=environment(), timeout=LIMIT_S, check=True)
    assert os.read(ours, 1 << 16) == piped.out
    os.close(ours)
    os.close(theirs)


def test_the_footer_comes_and_goes_and_the_summary_stays(piped: Done) -> None:
    watched = Watched(*STORY, "--draft", "demo", "--draft-fixed", "4")
    assert watched.end() == 0
    assert "tokens per pass" in watched.raw
    assert "loading the target" in watched.raw
    lines = watched.terminal.lines()
    assert piped.text.rstrip() in lines
    assert not any("tokens per pass" in line or "loading" in line for line in lines)
    assert lines[-1].startswith("seed")
    assert any(line.startswith("drafter") and "model" in line for line in lines)
    cells = watched.terminal.cells
    assert cells.cursor.x == 0
    assert not cells.cursor.hidden
    assert STYLE.findall(watched.raw)[-1] == "\x1b[0m"


def test_wide_characters_come_out_whole_under_a_footer() -> None:
    watched = Watched("demo", "Emoji", "--raw", "-n", "60", "--temp", "0", *EMOJI)
    assert watched.end() == 0
    assert "\ufffd" not in watched.raw
    # The terminal's own picture of joined characters is its own affair.
    assert any(line.startswith("\U0001f600\u6f22\u5b57\u00e9\U0001f469") for line in watched.terminal.lines())


@pytest.mark.parametrize(
    ("flags", "variables", "moves", "styles"),
    [
        ([], {"NO_COLOR": "1"}, True, False),
        ([], {"TERM": "dumb"}, False, False),
        (["--no-live"], {}, False, True),
        (["--no-live", "--show-draft", "--draft", "ngram"], {"NO_COLOR": "1"}, False, False),
        (["-q"], {}, False, False),
    ],
    ids=["NO_COLOR", "dumb", "no-live", "NO_COLOR and no-live", "quiet"],
)
def test_a_terminal_gets_only_what_it_may(
    flags: list[str], variables: dict[str, str], moves: bool, styles: bool, piped: Done
) -> None:
    watched = Watched(*STORY, *flags, env=variables)
    assert watched.end() == 0
    assert (ESCAPE in STYLE.sub("", watched.raw)) == moves
    assert bool(STYLE.search(watched.raw)) == styles
    if "--show-draft" not in flags:
        assert piped.text.rstrip() in watched.terminal.lines()


def test_a_narrow_terminal_shows_the_figures_too() -> None:
    watched = Watched(*STORY, "-s", "7", columns=20)
    assert watched.end() == 0
    assert watched.terminal.lines()[-1].split() == ["seed", "7"]


def test_the_keyboards_interrupt_leaves_the_text_and_a_clean_screen(piped: Done) -> None:
    watched = Watched(*STORY, "-n", "2000", "--ignore-eos", "--draft", "demo", "--draft-fixed", "4", columns=120)
    watched.until(piped.text[:30])
    watched.press("\x03")
    assert watched.end() == 130
    lines = watched.terminal.lines()
    assert any(line.startswith(piped.text[:30]) for line in lines)
    assert not any("tokens per pass" in line for line in lines)
    assert ["finish", "interrupted"] in [line.split() for line in lines]
    assert watched.terminal.cells.cursor.x == 0


def test_the_keyboards_interrupt_while_loading_takes_the_footer_away(tmp_path: Path) -> None:
    watched = Watched(*STORY, "--exact", env={"SPECDEC_CACHE": str(tmp_path)})
    watched.until("exact: comparing widths")
    watched.press("\x03")
    assert watched.end() == 130
    assert "comparing" not in "\n".join(watched.terminal.lines())
    assert "Traceback" not in watched.raw
    assert not (tmp_path / "widths").exists()


def test_a_prompt_can_be_typed_and_no_prompt_is_not_waited_for(piped: Done) -> None:
    typed = Watched("demo", "-", *STORY[2:], "-q")
    time.sleep(0.5)
    typed.press(STORY[1] + "\n\x04")
    assert typed.end() == 0
    assert piped.text.rstrip() in typed.terminal.lines()
    none = Watched("demo", "-n", "1")
    assert none.end() == 2
    assert "standard input is a terminal" in " ".join(none.terminal.lines())
