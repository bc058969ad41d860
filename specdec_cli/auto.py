"""What --draft auto takes: the best draft that is on this machine already, if it promises a clear gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from specdec_cli import candidates
from specdec_cli.errors import SpecdecError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing import architecture, pairs, suggest
from specdec_cli.pairing.facts import facts
from specdec_cli.pairing.findings import Verdict
from specdec_cli.pairing.pairs import Family
from specdec_cli.pairing.suggest import Candidate, Known, Suggestion
from specdec_cli.settings import profiles

_MOST_FILES = 200
_LONGEST_S = 2.0
_SMALLEST = 0.001  # of the target's size; less is an adapter or a scrap, and there may be hundreds of those
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
    try:
        found = [each for each in candidates.gather(target) if _SMALLEST <= each.n_bytes / max(header.size, 1) <= _LARGEST]
    except SpecdecError:
        return None
    families = _families(profiles.folders()) if found else ()
    best: Suggestion | None = None
    for each in found[:_MOST_FILES]:
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
    try:
        known = suggest.known_drafts(header, _families(profiles.folders()))
    except SpecdecError:
        return None
    return next((each for each in known if each.kin and _gain(each, on_cpu) >= suggest.CLEAR_GAIN), None)


def can_go_back(header: Header) -> bool:
    """Whether the target's cache can drop tokens again; where it cannot, no draft can be used."""
    return all(found.severity < Verdict.INCOMPATIBLE for found in architecture.cache(facts(header, "target")))


@cache
def _families(folders: tuple[Path, ...]) -> tuple[Family, ...]:
    """The known pairs; a file that cannot be read is passed over."""
    return tuple(pairs.load(folders)[0])


def _gain(each: Suggestion | Known, on_cpu: bool) -> float:
    return (each.on_cpu if on_cpu else each.estimate).speed_up
