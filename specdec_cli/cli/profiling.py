"""What the commands of profile do once their words are read."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from specdec_cli.cli import answering
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_COULD_NOT_START, EXIT_DONE, UsageError
from specdec_cli.pairing import pairs
from specdec_cli.pairing.pairs import Family
from specdec_cli.settings import profiles
from specdec_cli.settings.kinds import quoted
from specdec_cli.settings.profiles import Profile
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import SETTINGS
from specdec_cli.ui.profiled import render_family, render_list, render_profile

_LIST, _SHOW = "specdec.profile-list/1", "specdec.profile/1"
_SETTINGS, _PAIRS = "settings", "pairs"


def show_all(settings: Settings) -> int:
    """List all profiles; returns the exit code."""
    document = {
        "schema": _LIST,
        "own_folder": str(profiles.folders()[0]),
        "profiles": [_listed(kind, path) for kind, path in _available()],
    }
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_list(document, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE


def show_one(settings: Settings, name: str) -> int:
    """Show what is in one profile; returns the exit code. Raises UsageError."""
    kind, path = _find(name)
    document = _profile(profiles.read(path)) if kind == _SETTINGS else _family(pairs.read(path))
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        draw = render_profile if kind == _SETTINGS else render_family
        answering.answer(draw(document, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE


def check(files: Sequence[str]) -> int:
    """Tell everything that is wrong with some files; returns the exit code: 1 for a fault, 2 where one cannot be read."""
    code = EXIT_DONE
    for name in files:
        path = _file(name)
        try:
            kind = _PAIRS if pairs.is_pairs(path) else _SETTINGS
            faults = pairs.faults(path) if kind == _PAIRS else profiles.faults(path)
        except UsageError as error:
            answering.answer(_told(error))
            code = EXIT_COULD_NOT_START
            continue
        answering.answer(
            "\n".join(map(_told, faults)) if faults else f"{path}: nothing is wrong with it (a profile of {kind})."
        )
        code = max(code, EXIT_ANSWER_IS_NO) if faults else code
    return code


def _available() -> Iterator[tuple[str, Path]]:
    for kind, found in ((_SETTINGS, profiles.available()), (_PAIRS, pairs.files(profiles.folders()))):
        for name in sorted(found):
            yield kind, found[name]


def _find(name: str) -> tuple[str, Path]:
    """The profile of a name: one of settings before one of pairs. Raises UsageError."""
    by_name: dict[str, tuple[str, Path]] = {}
    for kind, path in _available():
        by_name.setdefault(path.stem, (kind, path))
        if kind == _PAIRS:
            by_name[f"{pairs.FOLDER}/{path.stem}"] = (kind, path)
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 1)
        raise UsageError(
            f"There is no profile {quoted(name)}.",
            f"There are {', '.join(sorted(each for each in by_name if '/' not in each))}; yours go to {profiles.folders()[0]}.",
            f"specdec profile show {near[0]}" if near else "specdec profile list",
        )
    return by_name[name]


def _file(name: str) -> Path:
    """The file that is meant: one of this path, else the profile of this name."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        return _find(name)[1]
    except UsageError:
        return path


def _listed(kind: str, path: Path) -> dict[str, object]:
    fault, description = None, None
    try:
        description = (profiles.read(path) if kind == _SETTINGS else pairs.read(path)).description
    except UsageError as error:
        fault = _told(error)
    return {"kind": kind, **_place(path), "description": description or None, "fault": fault}


def _place(path: Path) -> dict[str, object]:
    own = profiles.folders()[0]
    return {"name": path.stem, "path": str(path), "origin": "own" if own in path.parents else "shipped"}


def _profile(profile: Profile) -> dict[str, object]:
    return {
        "schema": _SHOW,
        "kind": _SETTINGS,
        **_place(profile.path),
        "description": profile.description or None,
        "settings": {SETTINGS[name].key: entry.texts for name, entry in profile.entries.items()},
    }


def _family(family: Family) -> dict[str, object]:
    signs = family.signs
    return {
        "schema": _SHOW,
        "kind": _PAIRS,
        **_place(family.path),
        "description": family.description or None,
        "family": family.name,
        "vocabulary": {
            "tokenizer": signs.tokenizer,
            "pre_tokenizers": signs.pre,
            "size": signs.size,
            "tokens": _by_id(signs.tokens),
        },
        "targets": [pattern.pattern for pattern in family.targets],
        "drafts": [
            {
                "draft": draft.reference,
                "name": draft.name,
                "parameters": draft.n_parameters,
                "bytes": draft.n_bytes,
                "licence": draft.licence,
                "source": draft.source,
                "note": draft.note or None,
            }
            for draft in family.drafts
        ],
    }


def _by_id(tokens: Mapping[int, str]) -> list[dict[str, object]]:
    return [{"id": token, "text": text} for token, text in sorted(tokens.items())]


def _told(error: UsageError) -> str:
    return " ".join(part for part in (error.what, error.why, error.fix) if part)
