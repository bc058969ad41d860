"""Small JSON records kept between runs in the user's cache folder, and hashes of model files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from specdec_cli.wholefile import write_whole


def folder() -> Path:
    """The cache folder: $SPECDEC_CACHE, or the system's place for it."""
    return Path(os.environ.get("SPECDEC_CACHE") or platformdirs.user_cache_dir("specdec", appauthor=False))


def key(parts: Mapping[str, Any]) -> str:
    """A file name that stands for everything in parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def read(kind: str, name: str) -> dict[str, Any] | None:
    """A record, or None where there is none that can be read: a cache may be lost at any time."""
    try:
        found = json.loads((folder() / kind / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(kind: str, name: str, record: Mapping[str, Any]) -> None:
    """Keep a record: written beside and renamed. A folder that cannot be written to costs the record, not the run."""
    try:
        where = folder() / kind
        where.mkdir(parents=True, exist_ok=True)
        write_whole(where / f"{name}.json", json.dumps(record).encode())
    except OSError:
        return


def file_hash(path: Path) -> str:
    """SHA-256 of a file; remembered for as long as its size and time of change stay."""
    found = path.stat()
    name = key({"path": str(path.resolve()), "size": found.st_size, "mtime_ns": found.st_mtime_ns})
    known = read("hashes", name)
    if known is not None and isinstance(known.get("sha256"), str):
        return str(known["sha256"])
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            sha.update(block)
    write("hashes", name, {"sha256": sha.hexdigest()})
    return sha.hexdigest()
