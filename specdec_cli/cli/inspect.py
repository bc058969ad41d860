"""The command inspect: what a model file is."""  # noqa: A005 (the command's name; imports are absolute)

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve

_TAKES = ("model", "hf_repo", "tokens", "offline", "json", "live", "quiet", "verbose")


@settings_command("inspect", _TAKES, words=("model",))
def app(given: Given) -> int:
    """What a model file is: architecture, sizes, vocabulary, chat template; -v shows the template whole.

    MODEL is a GGUF file, a hub reference, or demo. Of a model on the hub only the header is fetched.
    """
    settings = resolve(given, os.environ)
    reference = settings.maybe("model", str)
    if reference is None:
        raise UsageError("There is no model to inspect.", "None was given.", "specdec inspect MODEL.gguf")
    from specdec_cli.cli import inspecting  # numpy and rich are loaded only for what can be shown

    return inspecting.execute(settings, reference)
