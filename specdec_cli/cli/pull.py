"""The command pull: fetch a model from the hub into the cache that all tools share."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve

_TAKES = ("model", "hf_repo", "offline", "json", "live", "quiet", "verbose")


@settings_command("pull", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Fetch a model from the hub, and print where it lies.

    MODEL is owner/repo, owner/repo:QUANT or hf:owner/repo/file.gguf. What an interrupted download has left is used.
    """
    settings = resolve(given, os.environ)
    reference = settings.maybe("model", str)
    if reference is None:
        raise UsageError("There is no model to fetch.", "None was given.", "specdec pull owner/repo:Q4_K_M")
    from specdec_cli.cli import pulling  # numpy and rich are loaded only for what can be fetched

    return pulling.execute(settings, reference)
