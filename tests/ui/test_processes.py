"""Real processes: pipes whose reader goes away, files, and a real terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ui.terminal import Terminal

RUN = """
import os, sys
from specdec_cli.ui.output import OutputClosed
from specdec_cli.ui.sinks import Display, open_sink
from specdec_cli.ui.summary import Summary
from specdec_cli.decoding.stats import RunStats
from tests.ui.runs import a_round, a_run, play
"""
ROOT = Path(__file__).parents[2]
ENDLESS = (
    RUN
    + """
stats = RunStats()
try:
    with open_sink(Display(), sys.stdout, sys.stderr, os.environ) as sink:
        for i in range(1_000_000):
            sink.event(a_round(i, "word\\n"), stats)
except OutputClosed:
    sys.exit(3)
"""
)
ONCE = RUN + "play(open_sink(Display(), sys.stdout, sys.stderr, os.environ), a_run(['n\\u00e9 \\u65e5\\n', 'end']))"
STEPPED = (
    RUN
    + """
sink = open_sink(Display(), sys.stdout, sys.stderr, {**os.environ, 'NO_COLOR': '1'})
stats = RunStats(started_s=100.0)
with sink:
    sink.progress("loading", 0.5)
    for i in range(12):
        done = a_round(i, f"word {i} of the text ", drafted=(1, 2), n_accepted=1, emitted=(1, 2))
        stats.add(done)
        sink.event(done, stats)
        if i in (3, 7):
            sys.stdin.readline()
    sink.finish(Summary(stats, "ngram", 5))
"""
)


def python(code: str, *options: str) -> list[str]:
    return [sys.executable, *options, "-c", code]


def test_a_reader_that_goes_away_ends_the_run_without_a_word() -> None:
    with subprocess.Popen(python(ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip() == b"word"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 3


def test_text_in_a_pipe_and_in_a_file_is_the_same_utf8(tmp_path: Path) -> None:
    ascii_env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    piped = subprocess.run(python(ONCE, "-X", "utf8=0"), capture_output=True, cwd=ROOT, check=True, env=ascii_env)
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(python(ONCE), stdout=out, stderr=subprocess.PIPE, cwd=ROOT, check=True)
    assert piped.stdout == (tmp_path / "out").read_bytes() == "né 日\nend\n".encode()
    assert b"acceptance rate" in piped.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_words() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(python(ONCE), stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert b"SpecdecError: The text could not be written to standard output." in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_real_terminal_that_is_resized_shows_the_text_and_the_summary() -> None:
    import pexpect

    terminal = Terminal(60, 20)
    command, *arguments = python(STEPPED)
    child = pexpect.spawn(command, arguments, dimensions=(20, 60), cwd=str(ROOT), echo=False, timeout=60)

    def watch(until: str) -> None:
        deadline = time.monotonic() + 60
        while until not in " ".join(terminal.lines()) and time.monotonic() < deadline:
            try:
                terminal.feed(child.read_nonblocking(4096, timeout=60).decode().replace("\r\n", "\n"))
            except pexpect.EOF:
                return

    watch("word 3 of the text")
    for columns, last in ((33, "word 7 of the text"), (47, "the end")):
        terminal.resize(columns, 20)
        child.setwinsize(20, columns)
        child.sendline("")
        watch(last)
    text = "".join(f"word {i} of the text " for i in range(12)).rstrip()
    assert terminal.lines()[0] == text
    assert [line for line in terminal.lines() if "tokens per pass" in line or "loading" in line] == []
    assert terminal.lines()[-1].split() == ["seed", "5"]
