"""Which draft models tune tries: those that were named, or the most promising on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator

from specdec_cli import candidates, drafters, room
from specdec_cli.bench.ways import Draft
from specdec_cli.errors import SpecdecError, UsageError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.hub.resolving import resolve
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.pairing import pairs, suggest
from specdec_cli.pairing.suggest import Candidate, Suggestion
from specdec_cli.settings import profiles
from specdec_cli.settings.build import model_options
from specdec_cli.settings.resolve import Settings

_MOST = 2  # drafts that are tried unasked
_MOST_FILES = 200
_LONGEST_S = 3.0


def drafts(settings: Settings, base: SessionOptions, listener: Listener) -> list[Draft]:
    """The draft models to try; ngram is tried anyway. Fetches what is named and not on this machine. Raises SpecdecError."""
    words = [word for each in (settings.value("draft", tuple), *settings.value("against", tuple)) for word in _words(each)]
    if drafters.NONE in words:
        raise UsageError("There is nothing to tune.", "--draft none is plain decoding.", "Leave it out.")
    found: dict[str, Draft] = {}
    for reference in words:
        if reference not in drafters.NAMES and reference not in found:
            offline = settings.value("offline", bool)
            path = resolve(reference, "draft", listener.progress, offline=offline, other_forms=drafters.NAMES)
            found[reference] = Draft(reference, path, model_options(settings, path, draft=True))
    if drafters.AUTO in words:
        for each in _promising(base, listener):
            reference, path = each.candidate.reference, each.candidate.header.path
            found.setdefault(reference, Draft(reference, path, model_options(settings, path, draft=True)))
    return list(found.values())


def _words(value: object) -> tuple[str, ...]:
    """--draft has several words with commas between, --against a list of such."""
    return (value,) if isinstance(value, str) else tuple(word for each in value for word in _words(each))  # type: ignore[attr-defined]


def _promising(base: SessionOptions, listener: Listener) -> list[Suggestion]:
    """The best drafts beside the target and in the hub cache, by what their headers promise. Nothing is fetched."""
    header = read_header(base.target.path, "target")
    on_cpu = not room.this_machine().gpus or base.target.n_gpu_layers == 0

    def gain(each: Suggestion) -> float:
        return (each.on_cpu if on_cpu else each.estimate).speed_up

    usable = [each for each in _weighed(header) if each.is_worth_it]
    best = sorted(usable, key=lambda each: (-gain(each), -each.estimate.speed_up, each.candidate.n_bytes))[:_MOST]
    if best:
        listener.notice(f"Drafts that were found here: {', '.join(each.candidate.header.path.name for each in best)}.")
    else:
        listener.notice("No draft model here promises a gain, so only ngram is tried; --draft names one.")
    return best


def _weighed(header: Header) -> Iterator[Suggestion]:
    started_s = time.perf_counter()
    families, _ = pairs.load(profiles.folders())
    try:
        found = candidates.gather(header.path)
    except SpecdecError:
        return
    for each in [each for each in found if each.n_bytes < header.size][:_MOST_FILES]:
        if time.perf_counter() - started_s > _LONGEST_S:
            return
        try:
            judged = suggest.weigh(header, Candidate(read_header(each.path, "draft"), each.reference, each.n_bytes), families)
        except SpecdecError:
            continue
        if isinstance(judged, Suggestion):
            yield judged
