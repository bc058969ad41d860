"""The command chat: talk with a model."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import RUN, SETTINGS

# What belongs to a single prompt. -f is a document here.
_NOT_TALKED = frozenset({"prompt", "raw", "shadow", "show_draft"})
_OWN = tuple(name for name, setting in SETTINGS.items() if "chat" in setting.only)
_TAKES = (*(name for name in RUN if name not in _NOT_TALKED), *_OWN)


@settings_command("chat", _TAKES, words=("model",))
def app(given: Given) -> int:
    """Talk with a model, drafting where that makes it faster.

    MODEL is a GGUF file, a hub reference, or demo. /help lists the commands of a talk; Ctrl-C stops an answer, Ctrl-D
    leaves. Through a pipe each line is a turn, and standard output holds the answers alone.
    """
    settings = resolve(given, os.environ, command="chat")
    if settings.value("list_sessions", bool):
        from specdec_cli.cli import sessions

        return sessions.show(settings)
    if settings.maybe("session", str) is not None:
        from specdec_cli.cli import sessions

        settings, saved = sessions.resumed(given, settings)
    else:
        saved = None
    model_reference(settings, "specdec chat MODEL.gguf")
    from specdec_cli.cli import chatting  # llama.cpp is loaded only for what can be talked with

    return chatting.execute(settings, saved)
