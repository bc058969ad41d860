"""Which GGUF of a repository is meant, by llama.cpp's rule: pure functions over a listing of file names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_QUANTS = ("Q4_K_M", "Q8_0")

_SPLIT = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})", re.IGNORECASE)
_TAG = re.compile(r"[-.]([A-Z0-9_]+)$", re.IGNORECASE)
# Files that accompany a model and are none: vision projectors, importance matrices, heads for speculative decoding.
_SIDECARS = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")


@dataclass(frozen=True, slots=True)
class SplitName:
    prefix: str  # the path without split numbers and .gguf
    quant: str  # upper case; empty when the name tells none
    index: int  # from 1
    n_parts: int


def split_name(path: str) -> SplitName:
    stem = path.removesuffix(".gguf")
    index, n_parts = 1, 1
    if match := _SPLIT.fullmatch(stem):
        stem, index, n_parts = match[1], int(match[2]), int(match[3])
    tag = _TAG.search(stem)
    return SplitName(stem, tag[1].upper() if tag else "", index, n_parts)


def choose(paths: Sequence[str], quant: str | None) -> str | None:
    """The model file meant, its first part if it is split; None if the repository holds no such file.

    paths: in the repository's own order, which decides between several that fit.
    """
    models = [path for path in paths if _is_model(path)]
    for wanted in (quant,) if quant else DEFAULT_QUANTS:
        # llama.cpp takes the first path with "<quant>." or "<quant>-" anywhere. A whole word goes first here, because
        # F16 would otherwise take a BF16 file listed before it.
        for before in (r"(?<![A-Za-z0-9])", ""):
            pattern = re.compile(f"{before}{re.escape(wanted)}[.-]", re.IGNORECASE)
            for path in models:
                if pattern.search(path):
                    return path
    return models[0] if models and not quant else None


def parts_of(path: str) -> list[str]:
    """All parts of the split file that path is a part of, first one first; of an unsplit file, itself."""
    split = split_name(path)
    if split.n_parts <= 1:
        return [path]
    return [f"{split.prefix}-{index:05d}-of-{split.n_parts:05d}.gguf" for index in range(1, split.n_parts + 1)]


def quants(paths: Sequence[str]) -> list[str]:
    """The quantizations that a repository offers, each once, in its order."""
    return list(dict.fromkeys(name for path in paths if _is_model(path) if (name := split_name(path).quant)))


def _is_model(path: str) -> bool:
    if not path.endswith(".gguf") or split_name(path).index != 1:
        return False
    name = path.rpartition("/")[2]
    return not any(sidecar in name for sidecar in _SIDECARS)
