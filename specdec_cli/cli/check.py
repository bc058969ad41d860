"""The command check: whether a draft fits a target, and whether both fit in memory."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import PANELS

_MODELS = ("model", "draft", "hf_repo", "hf_repo_draft", "lora", "lora_scaled", "offline", "profile", "draft_max")
_MEMORY = tuple(
    setting.name
    for panel, settings in PANELS.items()
    if panel.startswith(("Context", "Threads and devices", "The draft model"))
    for setting in settings
    if setting.fills.startswith("model.") or setting.name in ("ctx_size", "batch_size", "ubatch_size", "flash_attn")
    or setting.name.startswith("cache_type")
)  # fmt: skip
_TAKES = (*_MODELS, *_MEMORY, "json", "live", "quiet", "verbose")


@settings_command("check", _TAKES, words=("model", "draft"))
def app(given: Given) -> int:
    """Whether a draft fits a target, and whether both fit in memory; of one model alone, what can draft for it.

    Only headers are read: nothing is loaded, and of a model on the hub nothing else is fetched. Ends with 0 where the pair can
    be used, 1 where it cannot, 2 where a file cannot be read.
    """
    settings = resolve(given, os.environ)
    if settings.maybe("model", str) is None:
        raise UsageError("There is no model to check.", "None was given.", "specdec check TARGET.gguf DRAFT.gguf")
    from specdec_cli.cli import checking  # numpy and rich are loaded only for what can be shown

    return checking.execute(settings)
