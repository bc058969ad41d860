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
from specdec_cli.gguf.source import open_file

_MAX_PARTS = 65535  # llama.cpp counts them in 16 bits


def read_header(path: Path, role: Role | None = None) -> Header:
    """The header of a model file, checked against the file's size. Never reads tensor data.

    role: whose file it is, for the sentence of an error. Raises ModelFileError.
    """
    subject = Subject(path, role)
    part = _read_file(subject)
    n_parts = part.metadata.get("split.count", 1)
    if not isinstance(n_parts, int) or n_parts > _MAX_PARTS:
        raise faults.damaged(subject, f"split.count is {n_parts}.")
    if n_parts > 1:
        return _join(subject, part, n_parts)
    return Header((path,), part.version, MappingProxyType(part.metadata), part.tensors, part.n_bytes_needed, part.size)


def _read_file(subject: Subject) -> Part:
    with open_file(subject) as source:
        return read_part(source, subject)


def _join(subject: Subject, given: Part, n_parts: int) -> Header:
    """The header of a split model, from the part that was given and the others beside it."""
    paths = _part_paths(subject, given, n_parts)
    absent = [path for path in paths if not path.exists()]
    if absent:
        raise faults.part_missing(subject, n_parts, absent)
    parts = [given if path == subject.path else _read_file(Subject(path, subject.role)) for path in paths]
    tensors = []
    for i, (path, part) in enumerate(zip(paths, parts, strict=True)):
        if part.metadata.get("split.no") != i or part.metadata.get("split.count") != n_parts:
            raise faults.damaged(
                Subject(path, subject.role),
                f"By its name it is part {i + 1} of {n_parts}; by its header, split.no is {part.metadata.get('split.no')}"
                f" and split.count is {part.metadata.get('split.count')}.",
            )
        tensors += [replace(tensor, part=i) for tensor in part.tensors]
    names = {tensor.name for tensor in tensors}
    counted = parts[0].metadata.get("split.tensors.count")
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
    )


def _part_paths(subject: Subject, given: Part, n_parts: int) -> tuple[Path, ...]:
    """Where llama.cpp looks for the parts."""
    index = given.metadata.get("split.no")
    if not isinstance(index, int) or index >= n_parts:
        raise faults.damaged(subject, f"split.no is {index}, and split.count is {n_parts}.")
    found = re.fullmatch(rf"(.+)-{index + 1:05d}-of-{n_parts:05d}\.gguf", subject.path.name, re.DOTALL)
    if not found:
        raise faults.part_name(subject, index, n_parts)
    return tuple(subject.path.with_name(f"{found[1]}-{i + 1:05d}-of-{n_parts:05d}.gguf") for i in range(n_parts))
