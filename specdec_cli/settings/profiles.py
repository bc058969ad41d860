"""Profiles: YAML files that name settings, shipped with the package or the user's own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from yaml.nodes import Node, SequenceNode

from specdec_cli.errors import UsageError
from specdec_cli.settings.kinds import BadValue, Several, quoted
from specdec_cli.settings.table import EXCLUSIVE, SETTINGS
from specdec_cli.yamlfile import YamlFile, line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
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


def is_name(text: str) -> bool:
    """Whether a profile may be called so."""
    return _NAME.match(text) is not None


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
    path = found.get(name) if is_name(name) else None
    if path is None:
        near = difflib.get_close_matches(name, found, 1)
        raise UsageError(
            f"There is no profile {quoted(name)}.",
            f"There are {', '.join(sorted(found))}; your own go to {folders()[0]}.",
            f"Use --profile {near[0]}." if near else "",
        )
    return read(path)


def read(path: Path) -> Profile:
    """Read a profile's file. Raises UsageError with the line of what is wrong. Values are judged when they are resolved."""
    file = YamlFile(path, "profile")
    profile = _read(file)
    file.raise_first()
    return profile


def faults(path: Path) -> list[UsageError]:
    """Everything that is wrong with a profile's file, its values included. Raises UsageError where it cannot be read."""
    file = YamlFile(path, "profile")
    profile = _read(file)
    return [*file.faults, *_bad_values(profile), *_exclusive(profile)]


def _read(file: YamlFile) -> Profile:
    found = file.known_pairs(file.root(), _KEYS)
    description = file.scalar("description", found["description"]) if "description" in found else None
    entries = dict(_entries(file, found["settings"])) if "settings" in found else {}
    return Profile(file.path.stem, file.path, description or "", entries)


def _entries(file: YamlFile, node: Node) -> Iterator[tuple[str, Entry]]:
    keys = {setting.key: setting for setting in SETTINGS.values() if setting.profile}
    for key, value in file.pairs(node):
        setting = keys.get(key.value.replace("_", "-"))
        if setting is None:
            file.unknown(key, keys, "It is no setting of a profile.")
            continue
        texts = _texts(file, key.value, value, isinstance(setting.kind, Several))
        if texts is not None:
            yield setting.name, Entry(texts, line(value))


def _texts(file: YamlFile, key: str, node: Node, several: bool) -> str | tuple[str, ...] | None:
    if not (several and isinstance(node, SequenceNode)):
        return file.scalar(key, node)
    texts = [file.scalar(key, item) for item in node.value]
    return tuple(text for text in texts if text is not None)


def _bad_values(profile: Profile) -> Iterator[UsageError]:
    for name, entry in profile.entries.items():
        setting = SETTINGS[name]
        for text in (entry.texts,) if isinstance(entry.texts, str) else entry.texts:
            try:
                setting.kind.parse(text)
            except BadValue as bad:
                yield UsageError(
                    f"{profile.path}, line {entry.line}: {setting.key}: {quoted(text)} {bad.reason}.",
                    f"{setting.key} takes {setting.kind.expects}.",
                    f"Use {setting.key}: {bad.better}." if bad.better else "",
                )


def _exclusive(profile: Profile) -> Iterator[UsageError]:
    for group in EXCLUSIVE:
        first, *others = [name for name in group if name in profile.entries] or [""]
        for name in others:
            yield UsageError(
                f"{profile.path}, line {profile.entries[name].line}: {SETTINGS[name].key} and {SETTINGS[first].key}"
                " cannot be used together.",
                f"{SETTINGS[first].key} stands in line {profile.entries[first].line}.",
                "Leave one of them out.",
            )
