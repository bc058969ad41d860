"""The command suggest: which drafts fit a target."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve

_TAKES = ("model", "hf_repo", "folders", "offline", "json", "live", "quiet", "verbose")


@settings_command("suggest", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Which drafts fit a target: models on this machine, and pairs that are known to work.

    MODEL is a GGUF file, a hub reference, or demo. Looked through are its folder, the folders behind --in, and the hub
    cache. Of a model on the hub only the header is fetched. Exits with 1 where nothing but n-grams can draft.
    """
    settings = resolve(given, os.environ)
    reference = settings.maybe("model", str)
    if reference is None:
        raise UsageError("There is no target to find drafts for.", "None was given.", "specdec suggest TARGET.gguf")
    from specdec_cli.cli import suggesting  # numpy and rich are loaded only for what can be shown

    return suggesting.execute(settings, reference)
