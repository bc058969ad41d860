"""The command bench: whether drafting is worth it on this machine, measured beside plain decoding."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import RUN, SETTINGS

# What belongs to one prompt and its text, or to going on without drafting, which would leave nothing to measure.
_NOT_MEASURED = frozenset({
    "prompt", "file", "system_prompt", "ignore_eos", "stop", "grammar", "grammar_file", "json_schema", "json_schema_file",
    "show_draft", "draft_optional", "shadow",
})  # fmt: skip
_OWN = tuple(name for name, setting in SETTINGS.items() if "bench" in setting.only)
_OF_SERVERS = ("served_model", "api_key", "concurrency")
_TAKES = (*(name for name in RUN if name not in _NOT_MEASURED), *_OWN)


@settings_command("bench", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Measure whether drafting is worth it on this machine.

    Plain decoding and drafting take turns at the same tasks, with equal numbers of tokens. Ends with 0, with 1 where a
    threshold (--require-speedup, --max-memory, --require-equal) is missed. With --server a running server is measured in
    the place of a model. specdec bench compare A.json B.json sets result files side by side.
    """
    settings = resolve(given, os.environ, command="bench")
    served = settings.maybe("server", str) is not None
    if not served:
        model_reference(settings)
    if settings.value("resume", bool) and settings.decided["output"].value is None:
        raise UsageError("--resume needs a file to go on with.", "-o names it.", "specdec bench TARGET -o FILE.json --resume")
    if served:
        from specdec_cli.cli import serving

        return serving.execute(settings, given)
    from specdec_cli.cli import benching  # llama.cpp is loaded only for what can be measured

    return benching.execute(settings)
