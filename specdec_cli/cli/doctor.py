"""The command doctor: what this machine and build can do."""

from __future__ import annotations

from specdec_cli.cli.options import Given, settings_command

_TAKES = ("json", "live", "quiet", "verbose")


@settings_command("doctor", _TAKES)
def app(given: Given) -> int:
    """What this machine and build can do, to paste into a bug report, and what slows them down.

    It asks no network, and shows no token and no name of yours.
    """
    from specdec_cli.cli import examining  # llama.cpp is loaded only for what can be run

    return examining.execute(given)
