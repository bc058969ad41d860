"""The command specdec: finds the command, runs it, and turns every way to fail into a few words and an exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TextIO

from specdec_cli import __version__
from specdec_cli.errors import EXIT_COULD_NOT_START, EXIT_DONE, EXIT_INTERRUPTED, SpecdecError, UsageError
from specdec_cli.settings.flags import HELP
from specdec_cli.settings.kinds import TRUE_WORDS, quoted
from specdec_cli.settings.table import SETTINGS
from specdec_cli.units import visible

COMMANDS: Mapping[str, str] = {
    "run": "Complete a prompt, drafting where that makes it faster.",
    "chat": "Talk with a model, drafting where that makes it faster.",
    "bench": "Measure whether drafting is worth it on this machine.",
    "tune": "Find the fastest drafter and draft length on this machine.",
    "trace": "What happened in a run, from its --trace file.",
    "verify": "Prove on your own files that drafting leaves the output the target's own.",
    "report": "Draw what bench or tune measured, as a page or a plot.",
    "check": "Whether a draft fits a target, and whether both fit in memory.",
    "suggest": "Which drafts fit a target.",
    "inspect": "What a model file is.",
    "pull": "Fetch a model from the hub.",
    "models": "The models on this machine.",
    "doctor": "What this machine and build can do.",
    "profile": "Profiles of settings, and pairs that are known to work.",
    "demo": "See it at work with a small model that needs no download.",
}

_SUBCOMMANDS: Mapping[tuple[str, str], str] = {("bench", "compare"): "compare"}  # to their module

_HEAD = """Usage: specdec COMMAND [ARGUMENTS]

  Speculative decoding for GGUF models: faster, and the same text.
"""
_TAIL = """
Options:
  -h, --help  This text; specdec COMMAND --help for a command.
  --version   Which versions these are.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code of the process."""
    _fill_closed_streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    code = _guarded(words)
    if arguments is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # while the process ends, Ctrl-C would only add a traceback
    try:
        if not sys.stdout.closed:  # a display closes it where nobody reads any more
            sys.stdout.flush()
    except OSError as error:
        # Python would try to write the rest once more while it ends.
        sys.stdout = _nowhere("w")
        return code if isinstance(error, BrokenPipeError) else _unforeseen(error, words)
    return code


def _guarded(words: list[str]) -> int:
    try:
        return _run(words)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read the text has had enough of it
        return EXIT_DONE
    except SpecdecError as error:
        _say(error.what, error.why, error.fix)
        return error.exit_code
    except Exception as error:
        return _unforeseen(error, words)


def _run(words: list[str]) -> int:
    if not words:
        sys.stderr.write(_help())
        return EXIT_COULD_NOT_START
    name, rest = words[0], words[1:]
    if name in HELP:
        sys.stdout.write(_help())
        return EXIT_DONE
    if name == "--version":
        sys.stdout.write(f"{_versions()}\n")
        return EXIT_DONE
    if name not in COMMANDS:
        raise _no_command(name)
    return _run_command(name, rest)


def _run_command(name: str, words: list[str]) -> int:
    """Run the command in the module of its name. typer is imported no earlier, and no module of another command."""
    import typer

    module = _SUBCOMMANDS.get((name, words[0])) if words else None
    if module is not None:
        name, words = f"{name} {words[0]}", words[1:]
    command = typer.main.get_command(importlib.import_module(f"specdec_cli.cli.{module or name}").app)
    try:
        # Not command.main(): it words errors by itself, and ends the process.
        with command.make_context(f"specdec {name}", words) as ctx:
            return int(command.invoke(ctx))
    except typer.Exit as done:  # after --help
        return done.exit_code


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "".join(f"  {name:{width}}  {text}\n" for name, text in COMMANDS.items())
    return f"{_HEAD}\nCommands:\n{commands}{_TAIL}"


def _no_command(name: str) -> UsageError:
    if name.startswith("-"):
        return UsageError(
            f"specdec has no flag {quoted(name)} before a command.",
            "Flags belong behind the command.",
            f"specdec run {quoted(name)} ...",
        )
    near = difflib.get_close_matches(name, COMMANDS, 1)
    if near:
        fix = f"specdec {near[0]}"
    elif "/" in name or name.lower().endswith(".gguf"):
        fix = f"specdec run {quoted(name)}"
    else:
        fix = "specdec --help"
    return UsageError(f"specdec has no command {quoted(name)}.", f"The commands are {', '.join(COMMANDS)}.", fix)


def _unforeseen(error: Exception, words: list[str]) -> int:
    """What to say of any other error, in one sentence, and where the traceback is."""
    reason = " ".join(str(error).split())
    if hasattr(error, "format_message"):  # click's own
        what = " ".join(str(error.format_message()).split())
    elif isinstance(error, OSError):
        what = f"The system refused to read or write: {reason}"
    else:
        what = f"An error that specdec did not foresee: {type(error).__name__}{': ' if reason else ''}{reason}"
    if _is_verbose(words):
        _write("".join(traceback.format_exception(error)))
        _say(what, "", "Please report it, with the traceback above.")
    else:
        _say(what, "", "The same command with -v shows the traceback.")
    return EXIT_COULD_NOT_START


def _is_verbose(words: list[str]) -> bool:
    variable = os.environ.get(SETTINGS["verbose"].variable, "")
    return not {"-v", "--verbose"}.isdisjoint(words) or variable.lower() in TRUE_WORDS


def _say(what: str, why: str, fix: str) -> None:
    first, *others = (visible(part) for part in (what, why, fix) if part)
    _write(f"error: {first}\n" + "".join(f"  {part}\n" for part in others))


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody is there to read it


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        binding = version("llama-cpp-python")
    except PackageNotFoundError:
        binding = "not installed"
    return f"specdec {__version__} (llama-cpp-python {binding})"


def _fill_closed_streams() -> None:
    """Let what was closed lead nowhere, before a model file gets the number of standard error and llama.cpp writes to it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return Path(os.devnull).open(mode, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
