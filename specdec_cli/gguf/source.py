"""Where the bytes of a header come from: any place that can be read by range. Here: a local file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from specdec_cli.gguf import faults
from specdec_cli.gguf.faults import Subject


class ByteSource(Protocol):
    """Bytes that can be read by range."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read(self, offset: int, n: int) -> bytes:
        """n bytes from offset; fewer only where the source ends. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """An open local file."""

    file: BinaryIO
    size: int

    def read(self, offset: int, n: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(n)


@contextmanager
def open_file(subject: Subject) -> Iterator[FileSource]:
    """The file of a subject, or the ModelFileError that says why there is none."""
    path = subject.path
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise faults.missing(subject) from None
        raise faults.unreadable(subject, error) from None
    except ValueError as error:  # a NUL in the path
        raise faults.unreadable(subject, error) from None
    if stat.S_ISDIR(mode):
        raise faults.directory(subject)
    if not stat.S_ISREG(mode):
        # Opening a pipe would wait for its writer.
        raise faults.not_a_file(subject, mode)
    try:
        file = path.open("rb")
    except OSError as error:
        raise faults.unreadable(subject, error) from None
    with file:
        yield FileSource(file, os.fstat(file.fileno()).st_size)
