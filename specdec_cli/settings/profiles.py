"""Profiles: YAML files that name settings, shipped with the package or the user's own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from specdec_cli.errors import UsageError
from specdec_cli.settings.kinds import Several, quoted
from specdec_cli.settings.table import SETTINGS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_NULL = "tag:yaml.org,2002:null"
_KEYS = ("description", "settings")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a profile says about one setting: the text as it was written, or the texts of a list."""

    texts: str | tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    path: Path
    description: str
    entries: Mapping[str, Entry]  # by the name of the setting


def folders() -> tuple[Path, ...]:
    """Where profiles lie, the user's own first."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "profiles"  # in a wheel; in a checkout they lie beside the package
    return (
        platformdirs.user_config_path("specdec", appauthor=False) / "profiles",
        shipped if shipped.is_dir() else package.parent / "profiles",
    )


def available() -> dict[str, Path]:
    """Every profile by its name; the user's own hides a shipped one of the same name."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def load(name: str) -> Profile:
    """Read the profile of a name. Raises UsageError."""
    found = available()
    path = found.get(name) if _NAME.match(name) else None
    if path is None:
        near = difflib.get_close_matches(name, found, 1)
        raise UsageError(
            f"There is no profile {quoted(name)}.",
            f"There are {', '.join(sorted(found))}; your own go to {folders()[0]}.",
            f"Use --profile {near[0]}." if near else "",
        )
    return read(path)


def read(path: Path) -> Profile:
    """Read a profile's file. Raises UsageError with the line of what is wrong."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The profile {path} cannot be read.", str(error)) from None
    except yaml.YAMLError as error:
        raise UsageError(f"The profile {path} is not YAML.", " ".join(str(error).split())) from None
    description, entries = "", {}
    for key, node in _pairs(path, root):
        if key.value not in _KEYS:
            raise _unknown(path, key, _KEYS)
        if key.value == "description":
            description = _scalar(path, key.value, node)
        else:
            entries = dict(_entries(path, node))
    return Profile(path.stem, path, description, entries)


def _entries(path: Path, node: Node) -> Iterator[tuple[str, Entry]]:
    keys = {setting.key: setting for setting in SETTINGS.values() if setting.profile}
    for key, value in _pairs(path, node):
        setting = keys.get(key.value.replace("_", "-"))
        if setting is None:
            raise _unknown(path, key, keys)
        yield setting.name, Entry(_texts(path, key.value, value, isinstance(setting.kind, Several)), _line(value))


def _texts(path: Path, key: str, node: Node, several: bool) -> str | tuple[str, ...]:
    if several and isinstance(node, SequenceNode):
        return tuple(_scalar(path, key, item) for item in node.value)
    return _scalar(path, key, node)


def _scalar(path: Path, key: str, node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise _wrong(path, node, key, "takes one value", "Here stands a list or a mapping.")
    if node.tag == _NULL:
        raise _wrong(path, node, key, "has no value", "An empty text is written ''.")
    return str(node.value)


def _pairs(path: Path, node: Node | None) -> Iterator[tuple[ScalarNode, Node]]:
    """The keys and values of a mapping, each key once."""
    if node is None or node.tag == _NULL:  # an empty file, or nothing behind the key
        return
    if not isinstance(node, MappingNode):
        raise UsageError(f"{path}, line {_line(node)}: this is not KEY: VALUE.")
    seen: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise UsageError(f"{path}, line {_line(key)}: a key is one word.")
        if key.value in seen:
            raise _wrong(path, key, key.value, "stands there twice", f"It came first in line {seen[key.value]}.")
        seen[key.value] = _line(key)
        yield key, value


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _wrong(path: Path, node: Node, key: str, what: str, why: str) -> UsageError:
    return UsageError(f"{path}, line {_line(node)}: {quoted(key)} {what}.", why)


def _unknown(path: Path, key: ScalarNode, known: Iterable[str]) -> UsageError:
    names = list(known)
    near = difflib.get_close_matches(key.value.replace("_", "-"), names, 1)
    return UsageError(
        f"{path}, line {_line(key)}: there is no {quoted(key.value)}.",
        f"Known here: {', '.join(names)}." if len(names) < 10 else "It is no setting of a profile.",
        f"Use {near[0]}." if near else "",
    )
