"""Where the bytes of a header come from: any place that can be read by range. Here: local files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from specdec_cli.gguf import faults
from specdec_cli.gguf.constants import MAX_HEADER
from specdec_cli.gguf.faults import Subject

_FIRST_READ = 1 << 20


class ByteSource(Protocol):
    """Bytes that can be read by range."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def n_most(self) -> int:
        """The longest header that is read from here."""

    def ahead(self, n_have: int, n_least: int) -> int:
        """How far to read once the first n_have bytes do not do and n_least are sure to be needed."""

    def read(self, offset: int, n: int) -> bytes:
        """n bytes from offset; fewer only where the source ends. Raises ModelFileError, or what its owner explains."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """An open local file."""

    subject: Subject
    file: BinaryIO
    size: int

    @property
    def n_most(self) -> int:
        return MAX_HEADER

    def ahead(self, n_have: int, n_least: int) -> int:  # noqa: ARG002  # reading too much costs little here
        return max(2 * n_have, _FIRST_READ)

    def read(self, offset: int, n: int) -> bytes:
        try:
            self.file.seek(offset)
            return self.file.read(n)
        except OSError as error:
            raise faults.unreadable(self.subject, error) from None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of a model are."""

    open: Callable[[Subject], AbstractContextManager[ByteSource]]
    has: Callable[[Path], bool]


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
        yield FileSource(subject, file, os.fstat(file.fileno()).st_size)


DISK = Place(open_file, Path.exists)
