"""Sessions of chat: which are kept, and how the settings of one come back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from specdec_cli.chat import store
from specdec_cli.chat.store import Saved, Store
from specdec_cli.cli import answering
from specdec_cli.cli.keeping import lasting, worded
from specdec_cli.cli.options import Given
from specdec_cli.errors import EXIT_DONE, SpecdecError
from specdec_cli.settings.resolve import Raw, Settings, Source, resolve
from specdec_cli.settings.table import EXCLUSIVE, RUN, SETTINGS
from specdec_cli.ui.chatted import KeptSession, sessions_table

# What belongs to one start of the command, or stands in the talk itself.
_NOT_KEPT = frozenset({
    "hf_repo", "hf_repo_draft", "offline", "profile", "prompt", "file", "system_prompt", "json", "live", "quiet", "verbose",
    "grammar_file", "json_schema_file", "force",
})  # fmt: skip
_KEPT = tuple(name for name in (*RUN, "context", "hide_thinking", "markdown") if name not in _NOT_KEPT)


@dataclass(frozen=True, slots=True)
class Kept:
    """A session under its name."""

    store: Store
    saved: Saved | None  # None: it begins now


def resumed(given: Given, settings: Settings) -> tuple[Settings, Kept]:
    """The settings with those of the session where no flag says otherwise, and the session. Raises SpecdecError."""
    kept = Store(store.place(settings.value("session", str)))
    saved = kept.load()
    if saved is None:
        return settings, Kept(kept, None)
    before: dict[str, Raw] = {
        name: [str(each) for each in value] if isinstance(value, list) else str(value)
        for name, value in saved.settings.items()
        if name in _KEPT and name not in _put_out(given)
    }
    return resolve({**before, **given}, os.environ, command="chat"), Kept(kept, saved)


def kept_settings(settings: Settings) -> dict[str, object]:
    """What a session keeps: all that a flag, a command, the environment or a profile decided."""
    found: dict[str, object] = {}
    for name in _KEPT:
        setting, decided = SETTINGS[name], settings.decided[name]
        if decided.source >= Source.PROFILE and decided.value is not None:
            found[name] = worded(setting, decided.value)
    if "draft_fixed" in found:
        found.pop("draft_max", None)  # it follows from the other
    for name in ("model", "draft"):
        if name in found:
            found[name] = ",".join(map(lasting, str(found[name]).split(",")))
    return found


def show(settings: Settings) -> int:
    """Write which sessions are kept; returns the exit code."""
    found = [_described(name) for name in _names()]
    if settings.value("json", bool):
        answering.answer_json({"folder": str(store.folder()), "sessions": [each.as_json() for each in found]})
    else:
        answering.answer(
            sessions_table(found, str(store.folder()), colour=answering.colour(), columns=min(answering.columns(), 200))
        )
    return EXIT_DONE


def _names() -> list[str]:
    try:
        return sorted(path.stem for path in store.folder().glob("*.json"))
    except OSError:
        return []


def _described(name: str) -> KeptSession:
    try:
        saved = store.read(store.place(name))
    except SpecdecError as error:
        return KeptSession(name, problem=error.what)
    target = next((model.label for model in saved.models if model.role == "target"), "")
    first = saved.talk.turns[0].question if saved.talk.turns else ""
    return KeptSession(name, len(saved.talk.turns), saved.changed, target, first)


def _put_out(given: Mapping[str, Raw]) -> set[str]:
    """Settings that a given flag replaces."""
    return {name for group in EXCLUSIVE for name in group if not given.keys().isdisjoint(group)}
