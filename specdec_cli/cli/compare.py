"""The command bench compare: result files side by side, task by task."""

from __future__ import annotations

import os
from pathlib import Path

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import Format

_EXAMPLE = "specdec bench compare A.json B.json"


@settings_command("bench compare", ("force", "format", "json", "quiet", "verbose"), rest="files")
def app(given: Given) -> int:
    """Set result files of specdec bench side by side, task by task; ratios are to the first file.

    Files whose models, prompts, numbers of tokens or temperatures differ are refused with 2; --force compares them all
    the same, and says so above the table.
    """
    settings = resolve({name: value for name, value in given.items() if name != "files"}, os.environ)
    words = given["files"]
    files = [Path(word) for word in words] if isinstance(words, list) else []
    if len(files) < 2:
        raise UsageError("A comparison needs two result files or more.", f"There {_were(len(files))}.", _EXAMPLE)
    if len({file.resolve() for file in files}) < len(files):
        raise UsageError("A file cannot be compared with itself.", "One of them is named twice.", _EXAMPLE)
    from specdec_cli.cli import comparing  # numpy and rich are loaded only for what can be shown

    form = Format.JSON if settings.value("json", bool) else settings.maybe("format", Format) or Format.TABLE
    return comparing.execute(files, form, force=settings.value("force", bool))


def _were(n: int) -> str:
    return "was one" if n == 1 else "were none"
