"""From a model reference to its header: of a file on this machine, or of one on the hub that is not downloaded."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_from, read_header
from specdec_cli.gguf.source import ByteSource, Place
from specdec_cli.hub.references import HubFile, HubRepo, parse
from specdec_cli.hub.resolving import Progress, resolve

if TYPE_CHECKING:
    from specdec_cli.hub.remote import HubModel


def open_header(
    reference: str,
    role: Role | None = None,
    progress: Progress | None = None,
    *,
    offline: bool = False,
    other_forms: tuple[str, ...] = (),
) -> Header:
    """The header that a reference means. Of a model on the hub that is not in the cache only the header's bytes are fetched.

    role and other_forms (drafters' names, for a draft) word the errors. Raises ModelFileError.
    """
    wanted = parse(reference, role or "model", other_forms)
    if not isinstance(wanted, HubRepo | HubFile):
        return read_header(resolve(reference, role or "model", progress, other_forms=other_forms), role)
    # Imported here, because it takes half a second that a local file need not wait for.
    from specdec_cli.hub.remote import look

    def read(model: HubModel) -> Header:
        return _read(model, role)

    return look(wanted, role or "model", progress or _unreported, offline=offline, read=read)


def _read(model: HubModel, role: Role | None) -> Header:
    if model.is_here:
        return replace(read_header(model.paths[0], role), reference=model.reference)

    def open_part(subject: Subject) -> AbstractContextManager[ByteSource]:
        return model.open(subject.path)

    return read_from(Place(open_part, model.paths.__contains__), Subject(model.paths[0], role, model.reference))


def _unreported(label: str, fraction: float) -> None:
    """Nobody asked for progress."""
