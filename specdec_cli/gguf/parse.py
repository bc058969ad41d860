"""One GGUF header, from bytes to metadata and tensor table; nothing is believed before the bytes for it are there."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf import faults
from specdec_cli.gguf.constants import (
    DEFAULT_ALIGNMENT,
    MAGIC,
    MAX_DIMS,
    MAX_KEYS,
    MAX_TENSOR_NAME,
    MAX_TENSORS,
    REMOVED_TENSOR_TYPES,
    SCALARS,
    TENSOR_TYPES,
    VERSIONS,
    ValueType,
)
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.source import ByteSource

_RECOGNISED = 512  # bytes that show what a file is that is no GGUF
_HEAD = struct.Struct("<4sIQQ")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MIN_KEY = 8 + 1 + 4 + 1  # length, a name of one byte, type, a value of one byte
_MIN_TENSOR = 8 + 4 + 4 + 8  # length of the name, dimensions, type, offset
# llama.cpp ends the process, or refuses the file, where these have another type.
_FIXED_TYPES = {"general.alignment": ValueType.UINT32, "split.no": ValueType.UINT16}


class StringArray(Sequence[bytes]):
    """An array of strings as it stands in the file, taken apart when somebody first looks at it.

    A vocabulary of 262,144 tokens costs a walk over its lengths to read, and one comparison of bytes to compare.
    """

    def __init__(self, raw: bytes, n: int) -> None:
        """raw: n times a length (u64) and so many bytes, checked by whoever cut it out."""
        self.raw = raw
        self._n = n

    @cached_property
    def items(self) -> tuple[bytes, ...]:
        raw, unpack, pos, found = self.raw, _U64.unpack_from, 0, []
        for _ in range(self._n):
            start = pos + 8
            pos = start + unpack(raw, pos)[0]
            found.append(raw[start:pos])
        return tuple(found)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        return self.items[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringArray) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


NumberArray = npt.NDArray[Any]
Value = int | float | bool | str | StringArray | NumberArray


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A row of the tensor table."""

    name: str
    shape: tuple[int, ...]  # the fastest dimension first, as the file stores it
    type_name: str
    offset: int  # from the start of the data of its part
    n_bytes: int
    part: int = 0  # of a split model

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Part:
    """The header of one file."""

    version: int
    metadata: dict[str, Value]
    tensors: tuple[TensorInfo, ...]
    n_bytes_needed: int  # by header and tensor table
    size: int  # of the file


class _Cursor:
    """The bytes read so far, and a place in them. Reads ahead in growing pieces, never past the end."""

    def __init__(self, source: ByteSource, subject: Subject) -> None:
        self.source = source
        self.subject = subject
        self.size = source.size
        self.buffer = bytearray()
        self.pos = 0

    def need(self, n: int, more: int = 0) -> None:
        """Have n bytes from the place on; more: what the file must at least have after them."""
        end = self.pos + n
        least = end + more
        if least > self.size:
            raise faults.truncated(self.subject, least, self.size, exact=False)
        if least > self.source.n_most:
            raise faults.too_long(self.subject, least, self.source.n_most)
        have = len(self.buffer)
        if end <= have:
            return
        target = min(self.source.n_most, self.size, max(end, self.source.ahead(have, least)))
        self.buffer += self.source.read(have, target - have)
        if len(self.buffer) < end:  # the file became shorter
            raise faults.truncated(self.subject, end, len(self.buffer), exact=False)

    def unpack(self, form: struct.Struct, more: int = 0) -> tuple[Any, ...]:
        self.need(form.size, more)
        values = form.unpack_from(self.buffer, self.pos)
        self.pos += form.size
        return values

    def u32(self) -> int:
        return int(self.unpack(_U32)[0])

    def u64(self) -> int:
        return int(self.unpack(_U64)[0])

    def take(self, n: int) -> bytes:
        self.need(n)
        self.pos += n
        return self._copy(self.pos - n)

    def string(self) -> bytes:
        return self.take(self.u64())

    def take_strings(self, n: int) -> StringArray:
        """Walk over n strings and keep them as one piece."""
        start, unpack = self.pos, _U64.unpack_from
        pos, left = start, n
        while left:
            self.pos = pos
            self.need(8, more=8 * (left - 1))
            self.need(8 + unpack(self.buffer, pos)[0], more=8 * (left - 1))
            # What is in the buffer now is walked without looking up: this loop sees half a million strings.
            buffer, last = self.buffer, len(self.buffer) - 8
            while left and pos <= last:
                end = pos + 8 + unpack(buffer, pos)[0]
                if end > last + 8:
                    break
                pos = end
                left -= 1
        self.pos = pos
        return StringArray(self._copy(start), n)

    def _copy(self, start: int) -> bytes:
        """The bytes from start to the place; copied once, which a slice of the buffer would do twice."""
        with memoryview(self.buffer) as view:
            return bytes(view[start : self.pos])


def read_part(source: ByteSource, subject: Subject) -> Part:
    """Read and check one header. Raises ModelFileError."""
    cursor = _Cursor(source, subject)
    n_tensors, n_keys, version = _head(cursor)
    metadata = _metadata(cursor, n_keys, n_tensors)
    alignment = _alignment(metadata, subject)
    rows = _table(cursor, n_tensors)
    start = _padded(cursor.pos, alignment) if rows else cursor.pos
    tensors = _placed(rows, start, alignment, cursor)
    needed = max((start + tensor.offset + tensor.n_bytes for tensor in tensors), default=start)
    if needed > cursor.size:
        raise faults.truncated(subject, needed, cursor.size, exact=True)
    return Part(version, metadata, tensors, needed, cursor.size)


def _head(cursor: _Cursor) -> tuple[int, int, int]:
    """Numbers of tensors and keys, and the version."""
    if cursor.size == 0:
        raise faults.empty(cursor.subject)
    n = min(cursor.size, _RECOGNISED)
    cursor.need(n)
    if bytes(cursor.buffer[:4]) != MAGIC[: min(n, 4)]:
        raise faults.not_gguf(cursor.subject, bytes(cursor.buffer[:n]), cursor.size)
    if cursor.size >= 8:
        version = _U32.unpack_from(cursor.buffer, 4)[0]
        if version not in VERSIONS:
            raise faults.bad_version(cursor.subject, version)
    _, version, n_tensors, n_keys = cursor.unpack(_HEAD)
    cursor.need(0, more=n_keys * _MIN_KEY + n_tensors * _MIN_TENSOR)
    for n, most, name in ((n_keys, MAX_KEYS, "keys"), (n_tensors, MAX_TENSORS, "tensors")):
        if n > most:
            raise faults.damaged(cursor.subject, f"Its header tells of {n:,} {name}; {most:,} are allowed.")
    return n_tensors, n_keys, version


def _metadata(cursor: _Cursor, n_keys: int, n_tensors: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for left in range(n_keys, 0, -1):
        cursor.need(0, more=left * _MIN_KEY + n_tensors * _MIN_TENSOR)
        key = _text(cursor.string())
        if not key or key in metadata:
            raise faults.damaged(
                cursor.subject, f"It has the key {_named(key)} twice." if key else "It has a key without name."
            )
        kind = cursor.u32()
        if key in _FIXED_TYPES and kind != _FIXED_TYPES[key]:
            raise faults.damaged(
                cursor.subject, f"{key} must be of type {_FIXED_TYPES[key].name}, and is of {_type_name(kind)}."
            )
        metadata[key] = _array(cursor, key) if kind == ValueType.ARRAY else _scalar(cursor, key, kind)
    return metadata


def _scalar(cursor: _Cursor, key: str, kind: int) -> int | float | bool | str:
    if kind == ValueType.STRING:
        return _text(cursor.string())
    code = SCALARS.get(kind)
    if code is None:
        raise _unknown_type(cursor.subject, key, kind)
    value: int | float | bool = cursor.unpack(struct.Struct(code))[0]
    return value


def _array(cursor: _Cursor, key: str) -> StringArray | NumberArray:
    kind, n = cursor.u32(), cursor.u64()
    if kind == ValueType.STRING:
        return cursor.take_strings(n)
    code = SCALARS.get(kind)
    if code is None:
        raise _unknown_type(cursor.subject, key, kind)
    dtype = np.dtype(code)
    data = cursor.take(n * dtype.itemsize)
    # A stored bool may be any byte; numpy's must be 0 or 1.
    return np.frombuffer(data, np.uint8) != 0 if kind == ValueType.BOOL else np.frombuffer(data, dtype)


def _alignment(metadata: dict[str, Value], subject: Subject) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise faults.damaged(subject, f"general.alignment is {value}, which is not a power of two.")
    return value


def _table(cursor: _Cursor, n_tensors: int) -> list[tuple[str, tuple[int, ...], int, int]]:
    """Name, shape, type and offset of each tensor."""
    rows = []
    seen: set[str] = set()
    for left in range(n_tensors, 0, -1):
        cursor.need(0, more=left * _MIN_TENSOR)
        raw = cursor.string()
        name = _text(raw)
        if len(raw) > MAX_TENSOR_NAME:
            raise faults.damaged(cursor.subject, f"A tensor has a name of {len(raw)} bytes; {MAX_TENSOR_NAME} are allowed.")
        if name in seen:
            raise faults.damaged(cursor.subject, f"It has the tensor {name!r} twice.")
        seen.add(name)
        n_dims = cursor.u32()
        if n_dims > MAX_DIMS:
            raise faults.damaged(cursor.subject, f"Tensor {name!r} has {n_dims} dimensions; {MAX_DIMS} are allowed.")
        shape = cursor.unpack(struct.Struct(f"<{n_dims}Q"))
        kind, offset = cursor.u32(), cursor.u64()
        rows.append((name, shape, kind, offset))
    return rows


def _placed(
    rows: list[tuple[str, tuple[int, ...], int, int]], start: int, alignment: int, cursor: _Cursor
) -> tuple[TensorInfo, ...]:
    """The tensor table with sizes. As llama.cpp wants it, each tensor begins where the one before it ends, aligned."""
    subject = cursor.subject
    tensors: list[TensorInfo] = []
    expected: int | None = 0
    for i, (name, shape, kind, offset) in enumerate(rows):
        if expected is not None and offset != expected:
            raise faults.damaged(subject, f"Tensor {name!r} is said to start at {offset:,}, and its place is {expected:,}.")
        if kind in TENSOR_TYPES:
            n_bytes = _n_bytes(name, shape, kind, subject)
            expected = _padded(offset + n_bytes, alignment)
        elif kind in REMOVED_TENSOR_TYPES:
            raise ModelFileError(
                f"{subject} uses {REMOVED_TENSOR_TYPES[kind]}, which llama.cpp no longer reads.",
                f"Tensor {name!r} is of type {kind}.",
                "Download another quantisation of the model, such as Q4_0 or Q4_K_M.",
            )
        else:
            # A type newer than this table: llama.cpp may know it. The next tensor shows how long it is.
            end = rows[i + 1][3] if i + 1 < len(rows) else cursor.size - start
            n_bytes, expected = max(end - offset, 0), None
        type_name = TENSOR_TYPES[kind][0] if kind in TENSOR_TYPES else f"type {kind}"
        tensors.append(TensorInfo(name, shape, type_name, offset, n_bytes))
    return tuple(tensors)


def _n_bytes(name: str, shape: tuple[int, ...], kind: int, subject: Subject) -> int:
    type_name, per_block, block_bytes = TENSOR_TYPES[kind]
    row = shape[0] if shape else 1
    n = math.prod(shape)
    if n >= 1 << 63 or max(shape, default=0) >= 1 << 63:
        raise faults.damaged(subject, f"Tensor {name!r} has the shape {shape}, which no memory can hold.")
    if row % per_block:
        raise faults.damaged(
            subject, f"Tensor {name!r} of type {type_name} has rows of {row} elements, not a multiple of {per_block}."
        )
    return n // per_block * block_bytes


def _padded(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _named(key: str) -> str:
    """For a sentence: where a length is damaged the name of a key may be megabytes long."""
    return repr(key if len(key) <= 80 else f"{key[:80]}...")


def _type_name(kind: int) -> str:
    return ValueType(kind).name if kind in ValueType.__members__.values() else f"type {kind}"


def _unknown_type(subject: Subject, key: str, kind: int) -> ModelFileError:
    return faults.damaged(subject, f"The value of {_named(key)} is of {_type_name(kind)}, which GGUF does not have there.")
