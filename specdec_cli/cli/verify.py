"""The command verify: proof, on a person's own files, that drafting changes nothing."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import RUN, SETTINGS

# What belongs to one text, to going on without a draft, or to a choice of which both sides are verified.
_NOT_VERIFIED = frozenset({
    "predict", "ignore_eos", "stop", "grammar", "grammar_file", "json_schema", "json_schema_file", "show_draft",
    "draft_optional", "shadow", "verify",
})  # fmt: skip
_OWN = tuple(name for name, setting in SETTINGS.items() if "verify" in setting.only)
_TAKES = (*(name for name in RUN if name not in _NOT_VERIFIED), *_OWN)


@settings_command("verify", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Prove on your own files that drafting leaves the output the target's own.

    Greedy decoding, sampling under both rules, and the caches are held against what the target alone gives. Takes a minute;
    --thorough takes ten. A prompt of yours (-p, -f) is used beside the built-in ones. Ends with 0 where all is sound, with 1
    on a fault.
    """
    settings = resolve(given, os.environ, command="verify")
    model_reference(settings)
    from specdec_cli.cli import verifying  # llama.cpp is loaded only for what can be verified

    return verifying.execute(settings)
