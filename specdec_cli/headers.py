"""From a model reference to its header: of a file on this machine, or of one on the hub that is not downloaded."""

from __future__ import annotations

from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.hub.resolving import Progress, resolve


def open_header(
    reference: str,
    role: Role | None = None,
    progress: Progress | None = None,
    *,
    offline: bool = False,
    other_forms: tuple[str, ...] = (),
) -> Header:
    """The header that a reference means. Of a model on the hub only the header's bytes are fetched.

    role and other_forms (drafters' names, for a draft) word the errors. Raises ModelFileError.
    """
    return read_header(resolve(reference, role or "model", progress, offline=offline, other_forms=other_forms), role)
