"""The command trace: what is in a file of --trace."""  # noqa: A005 (the command's name)

from __future__ import annotations

import os
from pathlib import Path

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import Settings, resolve
from specdec_cli.settings.table import SETTINGS

_ONE, _TWO = "specdec trace FILE.jsonl", "specdec trace --diff A.jsonl B.jsonl"


@settings_command("trace", ("rounds", "worst", "top", "diff", "json", "verbose"), rest="files")
def app(given: Given) -> int:
    """What happened in a run, from its --trace file.

    A summary, and the rounds as strips of tokens. With --worst, where drafts fail. With --diff, two files side by side: ends
    with 1 where their texts differ or cannot be compared.
    """
    settings = resolve({name: value for name, value in given.items() if name != "files"}, os.environ)
    words = given["files"]
    files = [Path(word) for word in words] if isinstance(words, list) else []
    shows = _shows(settings)
    _check_number(len(files), diff=shows == ["diff"])
    from specdec_cli.cli import tracing  # numpy and rich are loaded only for what can be shown

    match shows:
        case ["diff"]:
            return tracing.compare(files[0], files[1])
        case ["worst"]:
            return tracing.worst(files[0], settings.value("top", int))
        case ["json"]:
            return tracing.document(files[0])
    return tracing.show(files[0], settings.maybe("rounds", tuple))


def _shows(settings: Settings) -> list[str]:
    """What is asked for in place of the usual. Raises UsageError where it is more than one thing."""
    asked = [name for name in ("rounds", "worst", "diff", "json") if settings.decided[name].value not in (None, False)]
    if len(asked) > 1:
        flags = " and ".join(SETTINGS[name].flag for name in asked)
        raise UsageError(f"{flags} cannot be used together.", "Each shows something else.", "Leave all but one of them out.")
    return asked


def _check_number(n: int, *, diff: bool) -> None:
    if n == (2 if diff else 1):
        return
    there = {0: "There was none.", 1: "There was one."}.get(n, f"There were {n}.")
    if diff:
        raise UsageError("--diff needs two traces.", there, _TWO)
    raise UsageError("trace shows one file.", there, _TWO if n == 2 else _ONE)
