"""Ctrl-C at every moment, and readers that go away: the text so far stays, nothing is printed that nobody understands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import ModelOptions
from tests.cli.command import COMMAND, LIMIT_S, Done, environment, run
from tests.cli.models import chat_template, patched

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(sys.platform == "win32", reason="signals a group of processes as a POSIX terminal does"),
]

STORY = "Once upon a time there was a lighthouse"
LONG = ("run", "demo", STORY, "-n", "2000", "--ignore-eos", "--temp", "0", "-t", "1")
AT_START = "note: No draft model here"


class Started:
    """A process under way, in a group of its own as a shell starts it."""

    def __init__(self, folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*COMMAND, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env=environment(env),
            )

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_for_text(self, n_chars: int = 1) -> None:
        self._wait(lambda: len(self.out) >= n_chars)

    def wait_for_note(self, text: str) -> None:
        self._wait(lambda: text in self.err)

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while not until():
            assert self.running, self.err
            assert time.monotonic() < deadline_s
            time.sleep(0.002)

    def interrupt(self, *, alone: bool = False) -> None:
        """What a terminal does at Ctrl-C: every process of the group gets the signal. alone: only the command itself."""
        try:
            (os.kill if alone else os.killpg)(self._process.pid, signal.SIGINT)
        except ProcessLookupError:
            assert not self.running

    def end(self) -> Done:
        """What it left. It has little time for that: all that was asked of it would take far longer."""
        code = self._process.wait(timeout=15)
        done = Done(code, self._out.read_bytes(), self.err)
        assert "Traceback" not in done.err
        assert "Exception ignored" not in done.err
        return done

    def kill(self) -> None:
        if self.running:
            self._process.kill()
            self._process.wait()


@contextmanager
def started(folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Started]:
    process = Started(folder, *arguments, env=env)
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def story() -> str:
    return run("demo", STORY, "--raw", "-n", "60", "--temp", "0", "-q").text


def interrupted(done: Done) -> str:
    """The text of a run that was interrupted after it had begun."""
    assert done.code == 130
    assert "finish                  interrupted" in done.err
    assert "generation t/s" in done.err
    assert done.text.endswith("\n")
    return done.text[:-1]


@pytest.mark.parametrize("drafter", ["none", "FILE"])
def test_an_interrupted_text_stays_and_is_counted(drafter: str, story: str, smollm2: Path, tmp_path: Path) -> None:
    draft = smollm2 if drafter == "FILE" else drafter
    with started(tmp_path, *LONG, "--raw", "--draft", draft) as process:
        process.wait_for_text(20)
        process.interrupt()
        text = interrupted(process.end())
    assert len(text) >= 20
    assert text.startswith(story[:20])


def test_an_interrupt_of_the_process_alone_does_the_same(story: str, tmp_path: Path) -> None:
    with started(tmp_path, *LONG, "--raw") as process:
        process.wait_for_text(20)
        process.interrupt(alone=True)
        assert interrupted(process.end()).startswith(story[:20])


def test_a_second_interrupt_takes_nothing_back(story: str, tmp_path: Path) -> None:
    with started(tmp_path, *LONG, "--raw", "--draft", "ngram") as process:
        process.wait_for_text(20)
        process.interrupt()
        time.sleep(0.01)
        process.interrupt()
        done = process.end()
    assert done.code == 130
    assert done.text.startswith(story[:20])
    assert done.text.endswith("\n")


def test_interrupts_without_end_give_130_and_no_traceback(tmp_path: Path) -> None:
    """While it loads native code calls back into Python, and while it ends most of Python is gone."""
    with started(tmp_path, *LONG) as process:
        process.wait_for_note(AT_START)
        while process.running:
            process.interrupt()
            time.sleep(0.002)
        done = process.end()
    assert done.code == 130
    assert done.out.strip() == b""


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_inside_a_callback_of_native_code_are_not_raised_there(smollm2: Path) -> None:
    """What a callback raises is printed and forgotten."""
    interrupt = Interrupt()

    def twice(_fraction: float) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with interruptible(interrupt):
        with pytest.raises(PassAborted):
            Model(ModelOptions(smollm2), "target", interrupt, twice)
        with pytest.raises(KeyboardInterrupt):  # outside it is raised again
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_while_loading_leaves_no_text(tmp_path: Path) -> None:
    with started(tmp_path, *LONG) as process:
        process.wait_for_note(AT_START)
        process.interrupt()
        done = process.end()
    assert done.code == 130
    assert done.out.strip() == b""
    assert "error" not in done.err


def test_an_interrupt_in_a_long_prompt_stops_its_pass(smollm2: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("The quick brown fox jumps over the lazy dog near the river bank. " * 400, encoding="utf-8")
    with started(tmp_path, "run", "demo", "-f", prompt, "-c", "8192", "--raw", "-v", "--draft", smollm2, "-t", "1") as process:
        process.wait_for_note("--cache-type-v-draft")  # the last line before the prompt
        time.sleep(0.3)
        process.interrupt()
        text = interrupted(process.end())
    assert text == ""
    assert "(0 of 0 tokens" in process.err


def test_an_interrupted_document_is_whole(tmp_path: Path) -> None:
    with started(tmp_path, *LONG, "--json", "-v", "--draft", "ngram") as process:
        process.wait_for_note("chat template is applied")
        time.sleep(1)
        process.interrupt()
        done = process.end()
    assert done.code == 130
    found = json.loads(done.out)
    assert found["statistics"]["finish"] == "interrupted"
    assert found["statistics"]["emitted"] == len(found["tokens"])


def test_an_interrupt_while_a_chat_template_hangs_is_no_fault(smollm2: Path, tmp_path: Path) -> None:
    loop = "{% for i in range(99999) %}" * 2 + "{% endfor %}" * 2
    path = patched(smollm2, tmp_path / "model.gguf", chat_template(smollm2, loop), weights=False)
    with started(tmp_path, "run", path, "Hi", "-t", "1", "-v") as process:
        process.wait_for_note("--cache-type-v-draft")
        time.sleep(0.3)
        process.interrupt()
        done = process.end()
    assert done.code == 130
    assert "error" not in done.err


def test_an_interrupt_does_not_reach_the_process_of_a_chat_template(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from specdec_cli.llama.template import ChatTemplate\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "template = ChatTemplate('{{ messages[0].content }}', '', '')\n"
        "os.killpg(0, signal.SIGINT)\n"  # before the new process can have made any provision
        "print(template.render([{'role': 'user', 'content': 'rendered'}]).text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=False, start_new_session=True
    )
    assert done.stdout == "rendered\n", done.stderr


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_who_has_had_enough_ends_the_run_without_a_word(flags: list[str]) -> None:
    n_predict = "20" if "--json" in flags else "2000"
    command = [*COMMAND, *LONG, "--raw", "-n", n_predict, "--draft", "ngram", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if "--json" not in flags:  # which is written at the end
            assert len(os.read(process.stdout.fileno(), 10)) > 0
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(timeout=LIMIT_S) == 0
    assert all(line.startswith("note: ") for line in said.splitlines())


@pytest.mark.parametrize(("closed", "shown"), [("<&-", True), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)])
def test_streams_that_are_closed_are_done_without(closed: str, shown: bool, story: str) -> None:
    command = " ".join(f"'{word}'" for word in (*COMMAND, "run", "demo", STORY, "--raw", "-n", "4", "--temp", "0", "-t", "1"))
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"], capture_output=True, timeout=LIMIT_S, check=False, env=environment()
    )
    assert done.returncode == 0
    assert bool(done.stdout) == shown
    assert story.startswith(done.stdout.decode().removesuffix("\n"))
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_once() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, *LONG, "--raw", "-q"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False, env=environment())
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: The text could not be written to standard output.\n")
    assert done.stderr.count(b"error") == 1
