"""Writes a profile of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from specdec_cli.errors import UsageError
from specdec_cli.settings import profiles
from specdec_cli.settings.kinds import quoted
from specdec_cli.wholefile import write_whole

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_PART = re.compile(r"-\d{5}-of-\d{5}\Z")  # of a model in several files


def name_for(model: str) -> str:
    """A profile's name made of a model's."""
    return _STRANGE.sub("-", _PART.sub("", model)).strip("-._") or "tuned"


def place(name: str, *, overwrite: bool) -> Path:
    """Where a profile of this name goes. Raises UsageError where it cannot, or where the name is taken."""
    if not profiles.is_name(name):
        raise UsageError(
            f"{quoted(name)} cannot be the name of a profile.",
            "It goes into a file's name: letters, digits, dots, hyphens and underscores.",
            f"Use --profile {name_for(name)}.",
        )
    taken = profiles.available().get(name)
    if taken is not None and not overwrite:
        raise UsageError(
            f"There is a profile {name} already.", f"It lies in {taken}.", f"Use --profile {name}-2, or --overwrite."
        )
    return profiles.folders()[0] / f"{name}.yaml"


def write(path: Path, description: str, settings: Mapping[str, object], comments: Sequence[str]) -> None:
    """Write a profile, with comments before it, all at once. settings: by key. Raises UsageError where it cannot be written."""
    body = yaml.safe_dump(
        {"description": description, "settings": dict(settings)}, sort_keys=False, allow_unicode=True, width=1000
    )
    text = "".join(f"# {_one_line(comment)}\n" for comment in comments) + body
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise UsageError(f"The profile {path} cannot be written.", f"{error.strerror or error}.") from None


def _one_line(comment: str) -> str:
    return "".join(char if char.isprintable() else " " for char in comment)
