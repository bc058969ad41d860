"""Writes a file whole: beside its place and renamed there, so that there is always the old one or the new one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_LONGEST_NAME = 80  # characters of a file's own name in that of the one beside it, which has to fit as well


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write all of a file or nothing. Raises OSError, and leaves nothing behind.

    private: for its owner alone; else with the permissions that any new file has. It is on the disk when this returns.
    """
    unfinished = path.with_name(f".{path.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(unfinished, flags, 0o600 if private else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
