"""specdec chat on a terminal: Ctrl-C at every place, resizes, paste, history, completion, and a kill -9 that loses no turn."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, LIMIT_S, environment
from tests.ui.terminal import Terminal

pytestmark = [pytest.mark.model, pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")]

LEAVE = "(Ctrl-C again, or Ctrl-D, leaves)"
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Talker:
    """A person at a terminal."""

    def __init__(self, folder: Path, *flags: str, columns: int = 100, env: dict[str, str] | None = None) -> None:
        import pexpect

        self.terminal = Terminal(columns, 24)
        self.raw = ""
        places = {"SPECDEC_SESSIONS": str(folder / "sessions"), "SPECDEC_HISTORY": str(folder / "history")}
        arguments = ["chat", "demo", "-c", "1024", "-n", "16", "-t", "1", "--temp", "0", "--draft", "none", *flags]
        self.child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *arguments],
            dimensions=(24, columns),
            echo=False,
            timeout=LIMIT_S,
            encoding="utf-8",
            env=environment({"TERM": "xterm-256color", **places, **(env or {})}),
        )
        self.until("Ctrl-D leaves")

    @property
    def screen(self) -> str:
        return "\n".join(self.terminal.lines())

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def until(self, text: str, n: int = 1) -> None:
        """Follow the screen until it has shown the text so often."""
        deadline_s = time.monotonic() + LIMIT_S
        while self.screen.count(text) < n:
            assert time.monotonic() < deadline_s, self.screen
            assert self.read(), self.screen

    def at_prompt(self) -> None:
        """Wait until the line is there."""
        deadline_s = time.monotonic() + LIMIT_S
        while not self.screen.endswith("\n>"):
            assert time.monotonic() < deadline_s, self.screen
            assert self.read(), self.screen

    def answering(self) -> None:
        """Wait until an answer has begun."""
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            lines = self.terminal.lines()
            asked = max(i for i, line in enumerate(lines) if line.startswith(">"))
            if lines[asked] != ">" and any(line and not line.startswith("prompt [") for line in lines[asked + 1 :]):
                return
            assert time.monotonic() < deadline_s, self.screen
            assert self.read(), self.screen

    def end(self) -> int:
        while self.read():
            pass
        self.child.close()
        assert "Traceback" not in self.raw
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)

    def read(self) -> bool:
        import pexpect

        try:
            piece = self.child.read_nonblocking(4096, timeout=LIMIT_S)
        except pexpect.EOF:
            return False
        self.raw += piece
        self.terminal.feed(piece.replace("\r\n", "\n"))
        return True


@pytest.fixture
def talkers(tmp_path: Path) -> Iterator[list[Talker]]:
    """Those that a test leaves running are ended."""
    opened: list[Talker] = []
    yield opened
    for each in opened:
        each.child.close(force=True)


def kept(folder: Path, name: str) -> list[str]:
    """The questions of a session's file."""
    found = json.loads((folder / "sessions" / f"{name}.json").read_text(encoding="utf-8"))
    return [turn["question"] for turn in found["turns"]]


def test_a_talk_with_interruptions_everywhere(tmp_path: Path, talkers: list[Talker]) -> None:
    (tmp_path / "long.txt").write_text("The keeper climbed the stairs. " * 130, encoding="utf-8")
    talker = Talker(tmp_path, "--session", "s", "-ub", "32", "-b", "32", "-n", "400", "--ignore-eos", "-sys", "Brief.")
    talkers.append(talker)
    talker.at_prompt()
    talker.press("\x03")  # at the empty prompt
    talker.until(LEAVE)
    talker.press("half a question\x03")  # in a line
    talker.press(f"/read {tmp_path / 'long.txt'}\r")
    talker.until("goes with the next question")
    talker.press("What is it about?\r")
    talker.until("prompt [")
    talker.press("\x03")  # while the prompt passes
    talker.until("stopped")
    talker.at_prompt()
    talker.press("/undo\r")
    talker.until("Taken back: What is it about?")
    talker.press("Tell me a story.\r")
    talker.answering()
    talker.press("\x03\x03")  # while it answers, twice
    talker.until("stopped", 2)
    talker.at_prompt()
    assert kept(tmp_path, "s") == ["Tell me a story."]
    talker.press("/regen\r")
    talker.answering()
    talker.press("\x03")
    talker.until("stopped", 3)
    talker.press("\x03")
    talker.until(LEAVE, 2)
    talker.press("\x03")
    assert talker.end() == 0
    assert kept(tmp_path, "s") == ["Tell me a story."]
    assert "half a question" not in talker.screen


def test_a_kill_while_an_answer_streams_loses_no_turn(tmp_path: Path, talkers: list[Talker]) -> None:
    talker = Talker(tmp_path, "--session", "s", "-n", "120", "--ignore-eos")
    talkers.append(talker)
    talker.press("Name a colour.\r")
    talker.until("of 1024 context")
    talker.press("Name a town.\r")
    talker.until("of 1024 context", 2)
    talker.at_prompt()
    talker.press("/edit Name a river, and tell me about it.\r")
    talker.answering()
    talker.child.kill(signal.SIGKILL)
    assert talker.end() == -signal.SIGKILL
    assert kept(tmp_path, "s") == ["Name a colour.", "Name a town."]
    again = Talker(tmp_path, "--session", "s")  # -n of this command wins
    talkers.append(again)
    again.until("going on after turn 2")
    again.press("And another?\r")
    again.until("of 1024 context")
    again.press("\x04")
    assert again.end() == 0
    assert kept(tmp_path, "s") == ["Name a colour.", "Name a town.", "And another?"]


@pytest.mark.parametrize("flags", [(), ("--markdown",)])
def test_a_storm_of_resizes_while_answering_leaves_the_whole_answer(
    flags: tuple[str, ...], tmp_path: Path, talkers: list[Talker]
) -> None:
    talker = Talker(tmp_path, "-n", "120", "--ignore-eos", *flags)
    talkers.append(talker)
    talker.press("Tell me a story.\r")
    sizes = iter([(60, 20), (100, 24), (72, 10), (120, 30), (90, 24)] * 4)
    while "of 1024 context" not in talker.screen:
        assert talker.read(), talker.screen
        if (size := next(sizes, None)) is not None:
            columns, lines = size
            talker.child.setwinsize(lines, columns)
            talker.terminal.resize(columns, lines)
    talker.at_prompt()
    talker.press("/exit\r")
    assert talker.end() == 0


def test_paste_completion_and_the_history_of_another_process(tmp_path: Path, talkers: list[Talker]) -> None:
    first = Talker(tmp_path)
    talkers.append(first)
    first.press("\x1b[200~Say hello\nin two lines\x1b[201~\r")
    first.until("of 1024 context")
    first.press(" /temp\r")
    first.until("temp 0 (--temp)")
    first.press("/und\t\r")
    first.until("Taken back: Say hello in two lines")
    first.press("/exit\r")
    assert first.end() == 0
    second = Talker(tmp_path)
    talkers.append(second)
    second.at_prompt()
    second.press("\x1b[A")
    second.until("> /exit")
    second.press("\x1b[A")
    second.until("> /undo")
    second.press("\x1b[A")
    second.until("in two lines")
    second.press("\x03\x04")
    assert second.end() == 0
    assert "/temp" not in (tmp_path / "history").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("variables", "styles", "moves"),
    [({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)],
    ids=["NO_COLOR", "dumb"],
)
def test_a_terminal_gets_only_what_it_may(
    variables: dict[str, str], styles: bool, moves: bool, tmp_path: Path, talkers: list[Talker]
) -> None:
    talker = Talker(tmp_path, env=variables)
    talkers.append(talker)
    talker.press("Hi\r")
    talker.until("of 1024 context")
    talker.press("/exit\r")
    assert talker.end() == 0
    coloured = [style for style in STYLE.findall(talker.raw) if style not in ("\x1b[0m", "\x1b[m")]
    assert bool(coloured) == styles
    assert ("\x1b" in STYLE.sub("", talker.raw)) == moves


def test_standard_output_may_be_a_file_while_a_person_types(tmp_path: Path, talkers: list[Talker]) -> None:
    import pexpect

    out = tmp_path / "out"
    command = " ".join([*COMMAND, "chat", "demo", "-c", "1024", "-n", "8", "-t", "1", "--temp", "0", ">", str(out)])
    child = pexpect.spawn("/bin/sh", ["-c", command], echo=False, timeout=LIMIT_S, encoding="utf-8", env=environment({
        "TERM": "xterm", "SPECDEC_HISTORY": str(tmp_path / "history"),
    }))  # fmt: skip
    child.expect("Ctrl-D leaves")
    child.send("Hi\r")
    child.expect("of 1024 context")
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    answer = out.read_text(encoding="utf-8")
    assert answer.count("\n") == 1
    assert "\x1b" not in answer
