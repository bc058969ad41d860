"""From settings to a session: references become files, names become drafters."""

from __future__ import annotations

from pathlib import Path

from specdec_cli import drafters
from specdec_cli.decoding.verification import Rule
from specdec_cli.errors import ModelFileError
from specdec_cli.hub.resolving import resolve
from specdec_cli.session import Listener, SessionOptions
from specdec_cli.settings.build import context_options, model_options
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import Verify


def session_options(settings: Settings, listener: Listener) -> SessionOptions:
    """What a session is built from. Fetches what is not on this machine. Raises SpecdecError."""
    offline = settings.value("offline", bool)
    target = resolve(settings.value("model", str), "target", listener.progress, offline=offline)
    choice = settings.value("draft", str)
    draft = None
    if choice not in drafters.NAMES:
        draft = _draft(choice, settings, listener)
        choice = drafters.MODEL if draft is not None else drafters.NONE
    if choice == drafters.AUTO:
        choice = drafters.NONE
        listener.notice("No draft was named, so this is plain decoding: --draft FILE.gguf or --draft ngram can make it faster.")
    return SessionOptions(
        target=model_options(settings, target),
        context=context_options(settings),
        drafter=choice,
        draft=model_options(settings, draft, draft=True) if draft is not None else None,
        draft_context=context_options(settings, draft=True),
        n_max=settings.value("draft_max", int),
        n_min=settings.value("draft_min", int),
        p_min=settings.value("draft_p_min", float),
        rule=Rule(settings.value("verify", Verify)),
        exact=settings.value("exact", bool),
        force=settings.value("force", bool),
        draft_optional=settings.value("draft_optional", bool),
    )


def _draft(reference: str, settings: Settings, listener: Listener) -> Path | None:
    """The draft's file; None where it cannot be had and --draft-optional allows that."""
    offline = settings.value("offline", bool)
    try:
        return resolve(reference, "draft", listener.progress, offline=offline, other_forms=drafters.NAMES)
    except ModelFileError as error:
        if not settings.value("draft_optional", bool):
            raise
        listener.notice(f"Decoding plainly: {error.what} {error.why}".strip())
        return None
