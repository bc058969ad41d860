"""What --draft auto takes: the best draft that is on this machine already, if it promises a clear gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from specdec_cli import candidates
from specdec_cli.errors import SpecdecError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing import pairs, suggest
from specdec_cli.pairing.suggest import Candidate, Known, Suggestion
from specdec_cli.settings import profiles

_MOST_FILES = 200
_LONGEST_S = 2.0
_LARGEST = 0.5  # of the target's size; a larger file is hardly a draft


def local_draft(
    target: Path, header: Header, *, on_cpu: bool = False, fits: Callable[[Header], bool] | None = None
) -> Suggestion | None:
    """The best draft in the target's folder and in the hub cache; None where none promises a clear gain.

    on_cpu: the target runs on the processor alone, where passes over several tokens are dearer than on a GPU.
    fits: whether there is room for a draft beside the target.
    Nothing is fetched. Files that cannot be read are passed over, and after two seconds the best so far is taken.
    """
    started = time.perf_counter()
    families, _ = pairs.load(profiles.folders())
    try:
        found = candidates.gather(target)
    except SpecdecError:
        return None
    best: Suggestion | None = None
    for each in [each for each in found if each.n_bytes <= _LARGEST * header.size][:_MOST_FILES]:
        if time.perf_counter() - started > _LONGEST_S:
            break
        try:
            candidate = Candidate(read_header(each.path, "draft"), each.reference, each.n_bytes)
            judged = suggest.weigh(header, candidate, families)
        except SpecdecError:
            continue
        if not isinstance(judged, Suggestion) or _gain(judged, on_cpu) < suggest.CLEAR_GAIN:
            continue
        if (best is None or _gain(judged, on_cpu) > _gain(best, on_cpu)) and (fits is None or fits(candidate.header)):
            best = judged
    return best


def known_draft(header: Header, *, on_cpu: bool = False) -> Known | None:
    """The best draft that is known for the target's own family and promises a clear gain, on this machine or not."""
    families, _ = pairs.load(profiles.folders())
    try:
        known = suggest.known_drafts(header, families)
    except SpecdecError:
        return None
    return next((each for each in known if each.kin and _gain(each, on_cpu) >= suggest.CLEAR_GAIN), None)


def _gain(each: Suggestion | Known, on_cpu: bool) -> float:
    return (each.on_cpu if on_cpu else each.estimate).speed_up
