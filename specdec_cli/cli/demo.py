"""The command demo: see it work, with the small model that comes as a package."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.settings.resolve import resolve

_TAKES = ("predict", "draft_max", "exact", "threads", "threads_batch", "live", "quiet", "verbose")


@settings_command("demo", _TAKES)
def app(given: Given) -> int:
    """See it at work with a small model that needs no download: without a drafter, with two, and what each brought."""
    settings = resolve({**given, "model": "demo", "draft": "none"}, os.environ)
    from specdec_cli.cli import demonstration  # llama.cpp is loaded only for what can be run

    return demonstration.execute(settings)
