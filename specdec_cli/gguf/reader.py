"""From the path of a model, or of any part of a split one, to its header."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from specdec_cli.gguf import faults
from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import Part, read_part
from specdec_cli.gguf.source import DISK, Place

_MAX_PARTS = 65535  # llama.cpp counts them in 16 bits


def read_header(path: Path, role: Role | None = None) -> Header:
    """The header of a model file, checked against the file's size. Never reads tensor data.

    role: whose file it is, for the sentence of an error. Raises ModelFileError.
    """
    return read_from(DISK, Subject(path, role))


def read_from(place: Place, subject: Subject) -> Header:
    """The same for a model wherever its files are. Raises ModelFileError, or what the place's owner explains."""
    part = _read_file(place, subject)
    n_parts = part.metadata.get("split.count", 1)
    if not isinstance(n_parts, int) or n_parts > _MAX_PARTS:
        raise faults.damaged(subject, f"split.count is {n_parts!s:.80}.")
    if n_parts > 1:
        return _join(place, subject, part, n_parts)
    return Header(
        (subject.path,),
        part.version,
        MappingProxyType(part.metadata),
        part.tensors,
        part.n_bytes_needed,
        part.size,
        subject.reference,
    )


def _read_file(place: Place, subject: Subject) -> Part:
    with place.open(subject) as source:
        return read_part(source, subject)


def _join(place: Place, subject: Subject, given: Part, n_parts: int) -> Header:
    """The header of a split model, from the part that was given and the others beside it."""
    paths = _part_paths(subject, given, n_parts)
    absent = [path for path in paths if not place.has(path)]
    if absent:
        raise faults.part_missing(subject, n_parts, absent)
    parts = [given if path == subject.path else _read_file(place, subject.beside(path)) for path in paths]
    tensors = []
    for i, (path, part) in enumerate(zip(paths, parts, strict=True)):
        no, count = _integer(part, "split.no"), _integer(part, "split.count")
        if no != i or count != n_parts:
            raise faults.damaged(
                subject.beside(path),
                f"By its name it is part {i + 1} of {n_parts}; by its header, split.no is {no} and split.count is {count}.",
            )
        tensors += [replace(tensor, part=i) for tensor in part.tensors]
    names = {tensor.name for tensor in tensors}
    counted = _integer(parts[0], "split.tensors.count")
    if len(names) != len(tensors) or counted != len(tensors):
        raise faults.damaged(
            subject,
            f"Its parts hold {len(tensors)} tensors with {len(names)} names, and split.tensors.count is {counted}.",
        )
    return Header(
        paths,
        parts[0].version,
        MappingProxyType(parts[0].metadata),
        tuple(tensors),
        sum(part.n_bytes_needed for part in parts),
        sum(part.size for part in parts),
        subject.beside(paths[0]).reference,
    )


def _part_paths(subject: Subject, given: Part, n_parts: int) -> tuple[Path, ...]:
    """Where llama.cpp looks for the parts."""
    index = _integer(given, "split.no")
    if index is None or index >= n_parts:
        raise faults.damaged(subject, f"split.no is {index}, and split.count is {n_parts}.")
    found = re.fullmatch(rf"(.+)-{index + 1:05d}-of-{n_parts:05d}\.gguf", subject.path.name, re.DOTALL)
    if not found:
        raise faults.part_name(subject, index, n_parts)
    return tuple(subject.path.with_name(f"{found[1]}-{i + 1:05d}-of-{n_parts:05d}.gguf") for i in range(n_parts))


def _integer(part: Part, key: str) -> int | None:
    """A number of the metadata; None where there is something else, as an array, which does not compare as a number does."""
    value = part.metadata.get(key)
    return value if isinstance(value, int) else None
