"""Which drafters the settings name: readable before anything heavy is imported."""

from __future__ import annotations

from specdec_cli import drafters
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import Settings


def named_drafters(settings: Settings) -> tuple[str | None, tuple[str, ...]]:
    """The model that --draft names, if any, and the drafters' names beside it. Raises UsageError for odd company."""
    given = settings.value("draft", tuple)
    names = [each for each in given if each in drafters.NAMES]
    models = [each for each in given if each not in drafters.NAMES]
    alone = [name for name in names if name in (drafters.NONE, drafters.AUTO)]
    if len(models) > 1 or len(set(given)) < len(given) or (alone and len(given) > 1):
        why = "none and auto stand alone." if alone else "One model, and ngram, can draft together; each once."
        raise UsageError(f"--draft cannot be {','.join(given)}.", why, "Use --draft MODEL.gguf,ngram.")
    return (models[0] if models else None), tuple(names)
