"""The command models: the models on this machine."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.settings.resolve import resolve

_TAKES = ("folders", "json", "live", "quiet", "verbose")


@settings_command("models", _TAKES)
def app(given: Given) -> int:
    """The models on this machine: in the hub's cache, and in the folders given with --in.

    Models of one family stand together: they can draft for each other. specdec check says how well.
    """
    settings = resolve(given, os.environ)
    from specdec_cli.cli import listing  # numpy and rich are loaded only for what can be shown

    return listing.execute(settings)
