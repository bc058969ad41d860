"""Laws as plain dictionaries, to compare them."""

from __future__ import annotations

from specdec_cli.decoding.contracts import Law


def as_dict(law: Law) -> dict[int, float]:
    """Token -> probability."""
    return dict(zip(law.ids.tolist(), law.probs.tolist(), strict=True))
