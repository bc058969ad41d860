"""The cost curve of a target, measured to be looked at: seconds of a pass by its width, and of one row of a draft."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Protocol

from specdec_cli.decoding.contracts import PassResult
from specdec_cli.decoding.costs import CostCurve
from specdec_cli.decoding.noise import noise_for

_N_BEFORE = 64  # tokens in the cache before each pass
_MOST_PASSES = 5
_DENSE = 17  # every width up to here is measured, then each eighth
_STEP = 8
_TELLING = (1, 2, 4, 8, 16)  # measured first, for the time may be over soon
_STREAM = 6
_RATES = (0.6, 0.85)  # of acceptance: lengths that are best for a middling and for a good drafter are worth trying


class Passes(Protocol):
    """A cache that passes go through: a context of llama.cpp."""

    n_cached: int
    n_ctx: int
    n_vocab: int

    def decode(self, tokens: Sequence[int], /) -> PassResult: ...

    def feed(self, tokens: Sequence[int], /) -> float: ...

    def keep(self, n: int, /) -> None: ...

    def clear(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """What passes of one width cost."""

    n_tokens: int
    seconds: float  # the median
    low_s: float
    high_s: float
    n_passes: int


def measure(
    context: Passes, widest: int, limit_s: float, told: Callable[[float], None], clock: Callable[[], float] = perf_counter
) -> tuple[Cost, ...]:
    """The cost of passes of 1 to widest tokens: widths in turn, several times, back and forth. Leaves the cache empty.

    Ends when the time is over: widths that came to no pass are missing, but for the first. told: how far it is.
    """
    noise = noise_for(0, _STREAM)
    n_before = max(min(_N_BEFORE, context.n_ctx - widest - 1), 1)
    tokens = [int(noise.uniform(i) * context.n_vocab) for i in range(n_before + widest)]
    context.clear()
    context.feed(tokens[:n_before])
    widths = _widths(widest)
    _timed(context, tokens[n_before : n_before + 1])  # the first pass pays for what no other pays for
    seconds: dict[int, list[float]] = defaultdict(list)
    started_s = clock()
    for i in range(_MOST_PASSES * len(widths)):
        turn, place = divmod(i, len(widths))
        width = widths[place if turn % 2 == 0 else -1 - place]
        if seconds and clock() - started_s > limit_s:
            break
        told(i / (_MOST_PASSES * len(widths)))
        seconds[width].append(_timed(context, tokens[n_before : n_before + width]))
    context.clear()
    return tuple(Cost(n, median(each), min(each), max(each), len(each)) for n, each in sorted(seconds.items()))


def measure_step(context: Passes) -> float:
    """Seconds of one row of a draft: the median of several. Leaves the cache empty."""
    return measure(context, 1, math.inf, lambda _done: None)[0].seconds


def best_lengths(known: Mapping[int, float], step_s: float, longest: int) -> tuple[int, ...]:
    """Draft lengths that are worth trying as fixed ones, given T(n) and what one row of the drafter takes."""
    curve = CostCurve(known)
    found = []
    for rate in _RATES:
        expected = {k: sum(rate**i for i in range(k + 1)) / (k * step_s + curve(k + 1)) for k in range(longest + 1)}
        found.append(max(expected, key=lambda k: expected[k]))
    return tuple(sorted({k for k in found if k > 0}))


def _widths(widest: int) -> list[int]:
    every = [n for n in range(1, widest + 1) if n <= _DENSE or n % _STEP == 0 or n == widest]
    return [n for n in _TELLING if n <= widest] + [n for n in every if n not in _TELLING]


def _timed(context: Passes, tokens: Sequence[int]) -> float:
    n_before = context.n_cached
    seconds = context.decode(tokens).seconds
    context.keep(n_before)
    return seconds
