"""How often a drafter's tokens are accepted, by what it says of its own certainty: a calibration at two paces."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

# Certainties fall into these bins; drafters live near 1, so the bins are narrow there.
_EDGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
_CENTRES = tuple((low + high) / 2 for low, high in zip((0.0, *_EDGES), (*_EDGES, 1.0), strict=True))
_PRIOR = 4.0  # judged tokens that the assumption "a certainty is a rate" weighs
_HOPE = (1.35, 1.5)  # accepted, judged, before anything is known: what costs little to try is tried
_SLOW, _FAST = 0.995, 0.9  # what is kept of either pace, for each token judged
_SHRUNK = 3.0  # judged tokens that the slow pace weighs in the fast one
_TRUST = 0.9  # what is kept of the evidence for the fast pace against the slow one
_DOUBT = -2.0  # that evidence (log odds), where there is none: few texts turn at any one token


class Rate:
    """A rate of acceptance, learned at two paces; the one that foretold the last tokens better counts for more.

    A text of one kind is learned ever more exactly, and one that turns from code to prose is noticed within ten tokens.
    """

    __slots__ = ("_evidence", "_fast_accepted", "_fast_judged", "accepted", "judged", "now")

    def __init__(self, accepted: float, judged: float) -> None:
        self.accepted, self.judged = accepted, judged
        self._fast_accepted = self._fast_judged = 0.0
        self._evidence = _DOUBT
        self.now = accepted / judged  # chance that the next token is accepted

    def observe(self, accepted: float) -> None:
        """A token was accepted (1), or not (0), or would have been with this chance."""
        slow, fast = self._paces()
        found = accepted * math.log(fast / slow) + (1 - accepted) * math.log((1 - fast) / (1 - slow))
        self._evidence = _DOUBT + (self._evidence - _DOUBT) * _TRUST + found
        self.accepted = self.accepted * _SLOW + accepted
        self.judged = self.judged * _SLOW + 1
        self._fast_accepted = self._fast_accepted * _FAST + accepted
        self._fast_judged = self._fast_judged * _FAST + 1
        slow, fast = self._paces()
        share = 1 / (1 + math.exp(-self._evidence))
        self.now = fast * share + slow * (1 - share)

    def _paces(self) -> tuple[float, float]:
        slow = min(max(self.accepted / self.judged, 0.001), 0.999)
        return slow, (self._fast_accepted + _SHRUNK * slow) / (self._fast_judged + _SHRUNK)


class Calibration:
    """Acceptance rates of one drafter, by certainty and lately."""

    def __init__(self, bins: Sequence[tuple[float, float]] | None = None) -> None:
        """bins: (accepted, judged) of each bin, from an earlier run with the same pair."""
        if bins is None or len(bins) != len(_CENTRES):
            bins = [(_PRIOR * centre, _PRIOR) for centre in _CENTRES]
        self._bins = [Rate(*known) for known in bins]
        self._any = Rate(*_HOPE)

    def rate(self, certainty: float) -> float:
        """Chance that a token of this certainty is accepted, given that those before it were. NaN: nothing is known of it."""
        return self._any.now if math.isnan(certainty) else self._bins[bisect_right(_EDGES, certainty)].now

    @property
    def lately(self) -> float:
        """The rate of the last tokens, whatever their certainty."""
        return self._any.now

    def observe(self, certainty: float, accepted: bool) -> None:
        """A token of this certainty was judged."""
        if not math.isnan(certainty):
            self._bins[bisect_right(_EDGES, certainty)].observe(accepted)
        self._any.observe(accepted)

    def look(self, certainty: float) -> None:
        """The next token would have had this certainty, and was not drawn."""
        self._any.observe(self.rate(certainty))

    def known(self) -> list[tuple[float, float]]:
        """The bins as they stand, to begin the next run with."""
        return [(one.accepted, one.judged) for one in self._bins]
