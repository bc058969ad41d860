"""The models that are on this machine already: in the shared hub cache, and in folders. By their names; no file is opened."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.errors import ModelFileError, SpecdecError
from specdec_cli.hub import choosing
from specdec_cli.hub.references import MAIN, HubFile, HubRepo, parse

_SUFFIX = ".gguf"
_FOLDER = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")
_QUANT = re.compile(r"I?Q[1-8]\w*|TQ[12]\w*|B?F16|F32|MXFP4\w*|NVFP4\w*")  # what a person knows a file's ending as


@dataclass(frozen=True, slots=True)
class Cached:
    """A model in the hub cache that is all there."""

    path: Path  # of the first part, if it is split
    reference: str  # what to write to run it again
    n_bytes: int  # of all parts


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a download that did not end has left in the hub cache."""

    reference: str  # what to pull to complete it
    n_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Snapshot:
    folder: Path
    repo: str
    revision: str  # the name that stands for it, or its commit
    sizes: Mapping[str, int]  # of each file, by its path with forward slashes


def cache_folder() -> Path:
    """Where huggingface_hub keeps what it fetches; HF_HOME and HF_HUB_CACHE move it.

    By the library's own rule, without loading it: that takes half a second, and every run looks for drafts here.
    """
    loaded = sys.modules.get("huggingface_hub.constants")
    if loaded is not None:
        return Path(loaded.HF_HUB_CACHE)
    home = os.environ.get("HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))  # noqa: PTH118
    before = os.environ.get("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub"))  # noqa: PTH118
    return Path(os.path.expandvars(os.path.expanduser(os.environ.get("HF_HUB_CACHE", before))))  # noqa: PTH111


def cached_models() -> list[Cached]:
    """Every complete GGUF model in the hub cache, by repository and file. Asks no network."""
    found: dict[Path, Cached] = {}  # by the file itself, which several revisions may share
    for snapshot in _snapshots(cache_folder()):
        for names in _groups(snapshot.sizes):
            if snapshot.sizes.keys() >= set(names):
                path = snapshot.folder / names[0]
                n_bytes = sum(snapshot.sizes[name] for name in names)
                found.setdefault(_real(path), Cached(path, _reference(snapshot, names[0]), n_bytes))
    return list(found.values())


def unfinished() -> list[Unfinished]:
    """Every model of the hub cache that lacks parts, and what interrupted downloads have left."""
    root, found = cache_folder(), []
    for snapshot in _snapshots(root):
        for names in _groups(snapshot.sizes):
            here = [name for name in names if name in snapshot.sizes]
            if len(here) < len(names):
                n_bytes = sum(snapshot.sizes[name] for name in here)
                reason = f"{len(here)} of {len(names)} parts"
                found.append(Unfinished(_reference(snapshot, names[0]), n_bytes, reason))
    for repo, folder in _repositories(root):
        blobs = [file for file in _entries(folder / "blobs") if file.name.endswith(".incomplete")]
        n_bytes = sum(_size(file) or 0 for file in blobs)
        if n_bytes:
            found.append(Unfinished(repo, n_bytes, "an interrupted download"))
    return found


def models_in(folder: Path) -> list[Path]:
    """The GGUF files in a folder and the folders below, sorted; of a split model the first part, or the first that is there.

    Hidden files and folders are passed over. Raises SpecdecError for a folder that cannot be read.
    """
    _check_folder(folder)
    first: dict[Path, Path] = {}  # first part by its name -> what stands for the model
    for path in sorted(_files(folder)):
        head = path.with_name(choosing.parts_of(path.name)[0])
        first.setdefault(head, path)
    return sorted(first.values())


def _check_folder(folder: Path) -> None:
    try:
        if not folder.is_dir():
            where = folder.parent
            raise SpecdecError(
                f"{folder} is {'no folder' if folder.exists() else 'not there'}.",
                "Models are looked for in folders.",
                f"--in '{where}'" if folder.exists() else "Check the path behind --in.",
            )
        next(folder.iterdir(), None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecdecError(
            f"The folder {folder} cannot be read.", f"{reason}.", "Check its permissions, or give another folder."
        ) from None


def _files(folder: Path) -> Iterator[Path]:
    """GGUF files, each folder entered once, whatever links lead to it."""
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            status = here.stat()
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in _entries(here):
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                waiting.append(entry)
            elif entry.name.lower().endswith(_SUFFIX) and _size(entry) is not None:
                yield entry


def _repositories(root: Path) -> Iterator[tuple[str, Path]]:
    for folder in _entries(root):
        match = _FOLDER.fullmatch(folder.name)
        if match:
            yield f"{match['owner']}/{match['name']}", folder


def _snapshots(root: Path) -> Iterator[_Snapshot]:
    """Every snapshot of every repository, that of the revision main first."""
    for repo, folder in _repositories(root):
        names = _revisions(folder / "refs")
        snapshots = {entry.name: entry for entry in _entries(folder / "snapshots")}
        for commit in sorted(snapshots, key=lambda commit: (names.get(commit) != MAIN, commit not in names, commit)):
            sizes = dict(_sizes(snapshots[commit]))
            yield _Snapshot(snapshots[commit], repo, names.get(commit, commit), sizes)


def _revisions(refs: Path) -> dict[str, str]:
    """Commits -> the name of a revision that stands for each, main rather than another."""
    found: dict[str, str] = {}
    for folder, _, files in os.walk(refs):
        for file in sorted(files):
            path = Path(folder, file)
            name = path.relative_to(refs).as_posix()
            try:
                commit = path.read_text(encoding="utf-8").strip()
            except (OSError, ValueError):
                continue
            if name == MAIN or commit not in found:
                found[commit] = name
    return found


def _sizes(snapshot: Path) -> Iterator[tuple[str, int]]:
    for folder, _, files in os.walk(snapshot):
        for file in sorted(files):
            path = Path(folder, file)
            if file.endswith(_SUFFIX) and (size := _size(path)) is not None:
                yield path.relative_to(snapshot).as_posix(), size


def _groups(paths: Sequence[str] | Mapping[str, int]) -> list[list[str]]:
    """The names of all parts of each model of which something is there."""
    return [choosing.parts_of(first) for first in sorted({choosing.parts_of(path)[0] for path in paths})]


def _reference(snapshot: _Snapshot, filename: str) -> str:
    """The short reference where llama.cpp's rule leads from it to this file; else the file's own; else its path."""
    quant = choosing.split_name(filename).quant
    short = _QUANT.fullmatch(quant) and choosing.choose(sorted(snapshot.sizes), quant) == filename
    wanted = HubRepo(snapshot.repo, quant, snapshot.revision) if short else HubFile(snapshot.repo, filename, snapshot.revision)
    try:
        understood = parse(str(wanted)) == wanted
    except ModelFileError:  # a repository from before they had owners, a folder that somebody made by hand
        understood = False
    return str(wanted) if understood else str(snapshot.folder / filename)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _size(path: Path) -> int | None:
    """The size of a file; None for anything else, a broken link among it."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
