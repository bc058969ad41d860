"""The models on this machine that might draft for a target: beside it, in folders that were named, in the hub cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.hub import choosing
from specdec_cli.hub.cached import cached_models, models_in


@dataclass(frozen=True, slots=True)
class Found:
    """A model file, unread."""

    path: Path  # of the first part, if it is split
    reference: str  # what stands behind --draft
    n_bytes: int  # of all parts


def gather(target: Path | None, folders: Sequence[Path] = ()) -> list[Found]:
    """Each model once, the smallest first. target: looked beside, and not among the models.

    Raises SpecdecError for a folder that cannot be read.
    """
    everything = [*(beside(target) if target is not None else ()), *within(folders), *in_cache()]
    seen = {_real(target)} if target is not None else set()
    once = []
    for found in sorted(
        everything, key=lambda found: found.path.is_symlink()
    ):  # the parts of a split model lie by its own name
        real = _real(found.path)
        if real not in seen:
            seen.add(real)
            once.append(found)
    return sorted(once, key=lambda found: (found.n_bytes, str(found.path)))


def beside(target: Path) -> Iterator[Found]:
    """The other models in the target's own folder, not in those below it."""
    try:
        names = sorted(path.name for path in target.parent.glob("*.gguf"))
    except OSError:
        return
    for name in names:
        if choosing.parts_of(name)[0] == name:
            yield from _found(target.parent / name)


def within(folders: Iterable[Path]) -> Iterator[Found]:
    """The models in folders and the folders below. Raises SpecdecError for a folder that cannot be read."""
    for folder in folders:
        for path in models_in(folder):
            yield from _found(path)


def in_cache() -> Iterator[Found]:
    """The models in the hub cache. Asks no network."""
    for cached in cached_models():
        yield Found(cached.path, cached.reference, cached.n_bytes)


def _found(path: Path) -> Iterator[Found]:
    try:
        n_bytes = sum(path.with_name(name).stat().st_size for name in choosing.parts_of(path.name))
    except OSError:  # a part is missing, or may not be seen
        return
    yield Found(path, str(path), n_bytes)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
