"""Keeps a talk in a file: read with care, written beside and renamed, and never over what somebody else wrote."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from specdec_cli.chat.record import SCHEMA, dump, parse
from specdec_cli.chat.talk import ModelName, Talk
from specdec_cli.errors import UsageError
from specdec_cli.wholefile import write_whole

MAX_BYTES = 256 << 20
_MAX_NAME = 100
_RESERVED = {"CON", "PRN", "AUX", "NUL"} | {f"{port}{n}" for port in ("COM", "LPT") for n in range(10)}


@dataclass(frozen=True, slots=True)
class Saved:
    """What a session's file holds."""

    talk: Talk
    settings: Mapping[str, object] = field(default_factory=dict)  # JSON values, of the command's own making
    models: tuple[ModelName, ...] = ()
    created: str = ""  # ISO 8601, UTC
    changed: str = ""


def folder() -> Path:
    """Where sessions lie: $SPECDEC_SESSIONS, or the system's place for a person's data."""
    own = os.environ.get("SPECDEC_SESSIONS")
    return Path(own) if own else Path(platformdirs.user_data_dir("specdec", appauthor=False)) / "sessions"


def place(name: str) -> Path:
    """The file of a session of this name. Raises UsageError for what cannot be a file's name on every system."""
    strange = [char for char in name if char in '/\\:*?"<>|' or unicodedata.category(char).startswith("C")]
    problem = ""
    if not name.strip():
        problem = "It is empty."
    elif strange:
        problem = f"It has the character {strange[0]!r} in it."
    elif name.startswith(".") or name.endswith((".", " ")) or name != name.strip():
        problem = "It begins with a dot or a space, or ends with one."
    elif len(name.encode()) > _MAX_NAME:
        problem = f"It is longer than {_MAX_NAME} bytes."
    elif name.split(".")[0].upper() in _RESERVED:
        problem = "Windows keeps this name for itself."
    if problem:
        shown = "".join(char if char.isprintable() else "?" for char in name[:_MAX_NAME])
        raise UsageError(
            f'"{shown}" cannot be the name of a session.', problem, "Use letters, digits, hyphens and underscores."
        )
    return folder() / f"{name}.json"


def read(path: Path) -> Saved:
    """A session's file. Raises UsageError that says what is wrong; the file is left as it is."""
    saved, _ = _read(path)
    return saved


def write(path: Path, saved: Saved, *, overwrite: bool) -> None:
    """Keep a talk in a file of the person's own choice. Raises UsageError where there is one, or it cannot be written."""
    if not overwrite and path.exists():
        raise UsageError(f"There is a file {path} already.", "", "Choose another name.")
    put(path, _bytes(saved))


def put(path: Path, data: bytes) -> None:
    """Write a file, for its owner alone. Raises UsageError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, private=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The file {path} cannot be written.", f"{reason}.", "Free some room, or use another place.") from None


class Store:
    """The file that a chat is kept in. It knows the file as it read or wrote it last, and so sees when another did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: str | None = None  # a hash of the file; None: there is none

    def load(self) -> Saved | None:
        """What the file holds; None where there is none yet. Raises UsageError."""
        if not self.path.exists():
            self._known = None
            return None
        saved, data = _read(self.path)
        self._known = _hash(data)
        return saved

    def save(self, saved: Saved) -> Path:
        """Write everything, all at once; returns where to.

        Where another process wrote the file meanwhile, its talk stays: this one goes on in a file beside it. Raises UsageError
        where it cannot be written.
        """
        current = _current(self.path)
        if current is not None and current != self._known:
            self.path, self._known = _free_beside(self.path), None
        data = _bytes(saved)
        put(self.path, data)
        self._known = _hash(data)
        return self.path


def other_models(saved: Saved, models: tuple[ModelName, ...]) -> str | None:
    """A note, where a talk was had with other models than these."""
    then, now = ({m.role: m for m in found}.get("target") for found in (saved.models, models))
    if not saved.talk.turns or then is None or now is None or (then.label, then.n_bytes) == (now.label, now.n_bytes):
        return None
    size = "" if then.label != now.label else " of another size"
    return f"This talk was had with {then.label}; it goes on with {now.label}{size}."


def _read(path: Path) -> tuple[Saved, bytes]:
    try:
        n_bytes = path.stat().st_size
        if n_bytes > MAX_BYTES:
            raise _broken(path, f"It has {n_bytes:,} bytes, and {MAX_BYTES:,} are the most that is read.")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no session file {path}.", "", "Check the name.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"The session file {path} cannot be read.", str(getattr(error, "strerror", None) or error)) from None
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise _broken(path, "It is nested too deeply.") from None
    except ValueError as error:
        raise _broken(path, f"It is not JSON: {error}.") from None
    try:
        parsed = parse(found)
    except ValueError as error:
        raise _broken(path, str(error)) from None
    return Saved(*parsed), data


def _broken(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a session that can be read.", why, "It was left as it is. Use another session name.")


def _bytes(saved: Saved) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = dump(saved.talk, saved.settings, saved.models, saved.created or now, now)
    return (json.dumps({"schema": SCHEMA, **record}, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _current(path: Path) -> str | None:
    try:
        return _hash(path.read_bytes())
    except OSError:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _free_beside(path: Path) -> Path:
    n = 2
    while (beside := path.with_name(f"{path.stem}-{n}{path.suffix}")).exists():
        n += 1
    return beside
