"""The command specdec as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "specdec_cli.cli.app")
LIMIT_S = 120  # far more than any of these runs takes


@dataclass(frozen=True)
class Done:
    """What a process left behind."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as JSON, which has no NaN and no infinity."""
        found = json.loads(self.out, parse_constant=_no_number)
        assert isinstance(found, dict)
        return found


def _no_number(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process, without settings of ours, and with those given."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("SPECDEC_") or name == "SPECDEC_CACHE"
    }
    given = dict(variables or {})
    if "HF_HOME" in given:  # the tests' own place for the hub's cache would win over it
        given.setdefault("HF_HUB_CACHE", os.path.join(given["HF_HOME"], "hub"))  # noqa: PTH118
    return inherited | given


def specdec(*arguments: str | Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Done:
    """Run the command to its end. stdin: what comes through a pipe; without it, standard input is empty."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        env=environment(env),
        timeout=LIMIT_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode("utf-8", "replace")
    assert b"Exception ignored" not in done.stderr, done.stderr.decode("utf-8", "replace")
    return Done(done.returncode, done.stdout, done.stderr.decode("utf-8"))


def run(*arguments: str | Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Done:
    """specdec run with one thread, where all widths of a pass round alike and so texts can be compared."""
    return specdec("run", *arguments, "-t", "1", stdin=stdin, env=env)
