"""What a pass over n tokens costs on this machine: T(n), measured and kept current."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Callable, Mapping

_FAR = 1.25  # an observation counts for no more than this factor: what else the machine did is no news of the model
_UNSEEN = 2.0  # the same where the cost was a guess between others
_DRIFT = 0.1  # weight of an observation in what all widths share: context growth, heat, other load
_KEEN = 0.02  # smallest weight of an observation in the cost of its own width: far less, or the two would drift apart


class CostCurve:
    """Seconds of a pass by its width. Not assumed to be linear, convex, or even rising.

    A common factor follows what makes every pass slower at once; each width keeps its cost relative to it. So passes of one
    width keep all others current. Widths never seen lie on the line between their neighbours. widen: the width a pass of n
    tokens really has (--exact rounds it up).
    """

    def __init__(self, seconds: Mapping[int, float], widen: Callable[[int], int] = lambda n: n) -> None:
        """seconds: of at least one width, from a calibration or an earlier run."""
        self._relative = dict(seconds)
        self._widths = sorted(seconds)
        self._n_seen = dict.fromkeys(seconds, 1)
        self._factor = 1.0
        self._widen = widen

    def __call__(self, n: int) -> float:
        """T(n): seconds of a pass of n tokens."""
        return self._factor * self._base(self._widen(n))

    def observe(self, n: int, seconds: float) -> None:
        """A pass of n tokens took so long."""
        width = self._widen(n)
        base, n_seen = self._base(width), self._n_seen.get(width, 0)
        far = _FAR if n_seen else _UNSEEN
        ratio = min(max(seconds / (self._factor * base), 1 / far), far)
        self._relative[width] = base * ratio ** max(_KEEN, 1 / (n_seen + 1))
        self._n_seen[width] = n_seen + 1
        if n_seen:
            self._factor *= ratio**_DRIFT
        else:  # the first of its width tells of the width, not of the machine
            insort(self._widths, width)

    def known(self) -> dict[int, float]:
        """Seconds by width as they stand, to begin the next run with."""
        return {width: self._factor * self._relative[width] for width in self._widths}

    def _base(self, width: int) -> float:
        known = self._relative.get(width)
        if known is not None:
            return known
        at = bisect(self._widths, width)
        if at == 0:
            return self._relative[self._widths[0]]
        low = self._widths[at - 1]
        if at < len(self._widths):
            high = self._widths[at]
            share = (width - low) / (high - low)
            return self._relative[low] * (1 - share) + self._relative[high] * share
        first = self._widths[0]
        slope = (self._relative[low] - self._relative[first]) / (low - first) if low > first else 0.0
        return self._relative[low] + max(slope, 0.0) * (width - low)
