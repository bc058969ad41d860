"""Tests with a known rate of false alarms: numbers that ought to be uniform, and counts beside what they ought to be."""  # noqa: A005

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from specdec_cli.decoding.contracts import Ids
from specdec_cli.proof.laws import Floats

_LEAST = 10.0  # draws that a cell of a chi-square ought to get


def placed(ids: Ids, probs: Floats, token: int, chance: float) -> float:
    """Where a draw stands in its distribution: uniform on [0, 1] if it is one. chance: uniform, to spread a token's own share.

    The probability integral transform; the order of ids (m,) decides which faults push it to one side.
    """
    at = int(np.flatnonzero(ids == token)[0])
    return float(probs[:at].sum() + chance * probs[at])


def happened(event: bool, prob: float, chance: float) -> float:
    """The same for an event of a known probability."""
    return chance * prob if event else prob + chance * (1 - prob)


def distance(values: Sequence[float]) -> float:
    """The largest distance of the values' distribution function from the uniform one (Kolmogorov)."""
    if not values:
        return 0.0
    ordered, n = np.sort(values), len(values)
    steps = np.arange(n)
    return float(max((ordered - steps / n).max(), ((steps + 1) / n - ordered).max()))


def chance_of(found: float, n: int) -> float:
    """At most how probable such a distance of n uniform values is, for every n (Dvoretzky, Kiefer, Wolfowitz; Massart 1990)."""
    return min(1.0, 2 * math.exp(-2 * n * found**2))


def visible_from(alpha: float, n: int) -> float:
    """The distance from which n values raise an alarm at the rate alpha."""
    return min(1.0, math.sqrt(math.log(2 / alpha) / (2 * n))) if n else 1.0


def chi_square(counts: Mapping[int, int], expected: Mapping[int, float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom. Cells that expect few draws are taken together."""
    large = [key for key, n in expected.items() if n >= _LEAST]
    cells = [(counts.get(key, 0), expected[key]) for key in large]
    rest = sum(counts.values()) - sum(n for n, _ in cells), sum(expected.values()) - sum(n for _, n in cells)
    if rest[1] >= _LEAST:
        cells.append(rest)
    elif cells and rest[1] > 0:
        cells[-1] = cells[-1][0] + rest[0], cells[-1][1] + rest[1]
    if len(cells) < 2:
        return 0.0, 0
    return sum((n - wanted) ** 2 / wanted for n, wanted in cells), len(cells) - 1


def chi_square_tail(statistic: float, dof: int) -> float:
    """The probability of a larger statistic: the upper incomplete gamma function, in closed form for halves."""
    x = statistic / 2
    if dof == 0 or x <= 0:
        return 1.0
    half = dof % 2 / 2
    total = math.erfc(math.sqrt(x)) if half else 0.0
    for i in range(dof // 2):
        total += math.exp((i + half) * math.log(x) - x - math.lgamma(i + half + 1))
    return min(total, 1.0)


def total_variation(counts: Mapping[int, int], expected: Mapping[int, float]) -> float:
    """Half the sum of the differences of two distributions, given as counts."""
    n = sum(counts.values())
    keys = counts.keys() | expected.keys()
    return sum(abs(counts.get(key, 0) - expected.get(key, 0.0)) for key in keys) / (2 * n) if n else 0.0
