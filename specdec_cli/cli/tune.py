"""The command tune: the fastest drafter and draft length on this machine, kept as a profile."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import RUN, SETTINGS

# What belongs to one prompt and its text, and what is to be found out.
_NOT_TUNED = frozenset({
    "prompt", "file", "system_prompt", "ignore_eos", "stop", "grammar", "grammar_file", "json_schema", "json_schema_file",
    "show_draft", "shadow", "draft_optional", "draft_fixed", "draft_min", "draft_p_min",
})  # fmt: skip
_OWN = tuple(name for name, setting in SETTINGS.items() if "tune" in setting.only)
_TAKES = (*(name for name in RUN if name not in _NOT_TUNED), *_OWN)


@settings_command("tune", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Find the fastest drafter and draft length on this machine.

    Measures what passes cost, tries --draft, each --against and ngram (without --draft: the best drafts on this machine) by
    successive halving, and writes a profile. --profile names it; specdec run --profile NAME uses it.
    """
    given = dict(given)
    name = given.pop("profile", None)  # here it is written, not read
    settings = resolve(given, os.environ, command="tune")
    model_reference(settings)
    if settings.value("draft_max", int) == 0:
        raise UsageError("There is nothing to tune.", "--draft-max 0 is plain decoding.", "Leave it out.")
    from specdec_cli.cli import tuning  # llama.cpp is loaded only for what can be measured

    return tuning.execute(settings, str(name) if name else None)
