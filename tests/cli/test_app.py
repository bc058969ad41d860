"""The command specdec: what it says, what it imports, and its exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import typer

import specdec_cli.cli
from specdec_cli import __version__
from specdec_cli.cli.app import COMMANDS, main
from specdec_cli.errors import PairError
from specdec_cli.settings.resolve import Settings
from tests.cli.command import specdec

HEAVY = ("llama_cpp", "numpy", "huggingface_hub", "rich", "pydantic", "specdec_cli.session")
Execute = Callable[[Settings, str], int]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPECDEC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back whatever main() leaves there


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """specdec run demo hello, with something else in the place of the run itself."""

    def start(execute: Execute, *flags: str) -> int:
        running = ModuleType("specdec_cli.cli.running")
        running.execute = execute  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, running.__name__, running)
        monkeypatch.setattr(specdec_cli.cli, "running", running, raising=False)
        return main(["run", "demo", "hello", *flags])

    return start


def _raise(error: BaseException) -> Execute:
    def execute(settings: Settings, prompt: str) -> int:
        raise error

    return execute


def _process(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "specdec_cli.cli.app", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["--help"], 0),
        (["--version"], 0),
        (["nonsense"], 2),
        (["run", "--help"], 0),
        (["demo", "--help"], 0),
        (["run", "m.gguf", "--mirostat", "2"], 2),
        (["run", "m.gguf", "-c", "1", "hello"], 2),
        (["run", "m.gguf", "-f", "no-such-prompt.txt"], 2),
        (["run"], 2),
    ],
)
def test_help_versions_and_usage_errors_import_nothing_heavy(arguments: list[str], code: int) -> None:
    program = (
        "import sys\n"
        "from specdec_cli.cli.app import main\n"
        f"code = main({arguments!r})\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_begins_its_help_with_the_same_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = typer.main.get_command(importlib.import_module(f"specdec_cli.cli.{name}").app)
    assert command.name == name
    assert main([name, "-h"]) == 0
    assert COMMANDS[name].rstrip(".") in " ".join(capsys.readouterr().out.split())


def test_the_version_is_ours_and_that_of_the_binding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(rf"specdec {__version__} \(llama-cpp-python \d+\.\S+\)\n", capsys.readouterr().out)


def test_without_a_command_the_help_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: specdec")


@pytest.mark.parametrize(
    ("name", "fix"),
    [("rnu", "specdec run"), ("m.gguf", "specdec run m.gguf"), ("xyz", "specdec --help"), ("-c", "specdec run -c ...")],
)
def test_what_is_no_command_is_met_with_what_was_meant(name: str, fix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert capsys.readouterr().err.endswith(f"\n  {fix}\n")


def test_an_error_has_three_short_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "m.gguf", "-c", "1", "hello"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: --ctx-size 1 .*\n  --ctx-size takes .*8.*\n  Use --ctx-size 4096.*\n", err)


def test_a_run_gets_its_settings_and_its_prompt_and_gives_the_exit_code(run: Callable[..., int]) -> None:
    seen: list[object] = []

    def execute(settings: Settings, prompt: str) -> int:
        seen.extend([settings.value("model", str), settings.value("temp", float), prompt])
        return 1

    assert run(execute, "--temp", "0.5") == 1
    assert seen == ["demo", 0.5, "hello"]


def test_a_demonstration_runs_on_the_model_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(settings: Settings) -> int:
        return 0 if settings.value("model", str) == "demo" else 1

    stage = ModuleType("specdec_cli.cli.demonstration")
    stage.execute = execute  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stage.__name__, stage)
    monkeypatch.setattr(specdec_cli.cli, "demonstration", stage, raising=False)
    monkeypatch.setenv("SPECDEC_MODEL", "other.gguf")
    assert main(["demo"]) == 0


def test_an_error_of_ours_gives_its_exit_code(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_raise(PairError("They differ.", "Id 5: a, b.", "Use --force."))) == 2
    assert capsys.readouterr().err == "error: They differ.\n  Id 5: a, b.\n  Use --force.\n"


def test_parts_of_an_error_that_are_empty_are_left_out(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_raise(PairError("They differ."))) == 2
    assert capsys.readouterr().err == "error: They differ.\n"


def test_an_interruption_gives_130_and_says_nothing(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_raise(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_who_went_away_is_no_error(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_raise(BrokenPipeError(errno.EPIPE, "Broken pipe"))) == 0
    assert capsys.readouterr().err == ""


def test_an_unforeseen_error_is_one_sentence_and_the_way_to_its_traceback(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_raise(KeyError("x"))) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: An error that specdec did not foresee: KeyError: 'x'\n")
    assert "-v shows the traceback" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_verbose_shows_the_traceback(
    way: str, run: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDEC_VERBOSE", "1" if way == "environment" else "")
    assert run(_raise(KeyError("x")), *(["-v"] if way == "flag" else [])) == 2
    assert "Traceback" in capsys.readouterr().err


class _Full(io.StringIO):
    """A standard output with no room left."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class _Gone(io.StringIO):
    """A standard output whose reader has gone."""

    def flush(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_full_disk_is_said_and_is_not_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", _Full())
    assert main(["--version"]) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_a_pipe_closed_at_the_last_moment_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Gone())
    assert main(["--version"]) == 0
    sys.stdout.write("what is still written goes nowhere")
    sys.stdout.flush()


def test_streams_that_are_not_there_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["--version"]) == 0
    assert main(["run", "m.gguf", "-c", "1"]) == 2
    assert main(["run", "m.gguf"]) == 2  # no prompt


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors as a POSIX shell does")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("--version", 0), ("run m.gguf", 2)])
def test_closed_descriptors_change_no_exit_code(closed: str, arguments: str, code: int) -> None:
    line = f"'{sys.executable}' -m specdec_cli.cli.app {arguments} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_device_that_is_full_is_said_once() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "specdec_cli.cli.app", "run", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: ")
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"FORCE_COLOR": "1"}, {"COLUMNS": "40"}])
def test_colours_are_in_no_help_and_no_error(variables: dict[str, str]) -> None:
    environment = os.environ | variables
    for arguments in (["run", "--help"], ["run", "m.gguf", "-c", "1", "x"]):
        done = _process(*arguments, env=environment)
        assert b"\x1b" not in done.stdout + done.stderr


def test_an_error_can_be_written_where_only_ascii_can() -> None:
    done = _process("run", "m\u00f6del", "x", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 2
    assert b"m\\xf6del" in done.stderr


def test_an_error_never_steers_the_terminal() -> None:
    done = specdec("run", "no\x1b[31m\nsuch.gguf", "hi")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "no\\x1b[31m\\nsuch.gguf" in done.err
