#!/usr/bin/env python3
"""Write docs/commands.md from what the commands say of themselves; --check only compares."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"


def page() -> str:
    os.environ["COLUMNS"] = "100"
    from specdec_cli.cli.app import COMMANDS, main

    parts = ["# Commands\n\nThis page is made from the commands' own help; see `scripts/command_reference.py`.\n"]
    for words in (["--help"], *([name, "--help"] for name in COMMANDS)):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            main(words)
        title = " ".join(("specdec", *words[:-1]))
        parts.append(f"\n## {title}\n\n```text\n{said.getvalue().strip()}\n```\n")
    return "".join(parts)


def run() -> int:
    made = page()
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8", newline="\n")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == made:
        return 0
    print(f"{PAGE.name} is not what the commands say: run scripts/command_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(run())
