"""Counter-based noise: a pure function of (key, position, token id), never a consumed stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIFORM_LANE = 1 << 62  # no token id reaches it


def _mix(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014) on one 64-bit word."""
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _mix_lanes(key: int, lanes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """_mix(key ^ _mix(lane)) for an array of lanes (m,)."""
    x = lanes + np.uint64(_GOLDEN)
    for last in (False, True):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
        if not last:
            x = (x ^ np.uint64(key)) + np.uint64(_GOLDEN)
    return x


@dataclass(frozen=True, slots=True)
class CounterNoise:
    """Noise of one key. The same key, position and token id always give the same value."""

    key: int

    def gumbel(self, position: int, ids: Ids) -> npt.NDArray[np.float64]:
        """Standard Gumbel noise for token ids (m,) at a position; result (m,)."""
        bits = _mix_lanes(_mix(self.key ^ _mix(position)), ids.astype(np.uint64))
        u = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52  # in (0, 1): one bit more would round to 1
        return np.asarray(-np.log(-np.log(u)), dtype=np.float64)

    def uniform(self, position: int) -> float:
        """A number in [0, 1), independent of the Gumbel noise at the position."""
        return (_mix(_mix(self.key ^ _mix(position)) ^ _mix(_UNIFORM_LANE)) >> 11) * 2.0**-53


def noise_for(seed: int, *words: int) -> CounterNoise:
    """Noise keyed by a seed and any number of small integers (stream, round)."""
    key = _mix(_mix(seed & _MASK))  # twice: a seed and a position, or a word, that change places are not the same key
    for word in words:
        key = _mix(key ^ _mix(word & _MASK))
    return CounterNoise(key)


@dataclass(frozen=True, slots=True)
class NoNoise:
    """No noise at all: drawing becomes taking the most probable token."""

    def gumbel(self, position: int, ids: Ids) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return np.zeros(ids.size)

    def uniform(self, position: int) -> float:  # noqa: ARG002
        return 0.5
