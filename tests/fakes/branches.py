"""Exact enumeration: every choice of a run is taken in turn, and a path's weight is the product of its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding import sampling
from specdec_cli.decoding.contracts import Ids, Law, Noise, Sampler
from specdec_cli.decoding.sampling import Walk
from tests.fakes.target import BrokenPromise

T = TypeVar("T")


class Path:
    """One path through the choices: follows its script, then takes the first possible option and notes the others."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self.weight = 1.0
        self.open: list[tuple[int, ...]] = []
        self._script = script
        self._taken: list[int] = []

    def choose(self, weights: Sequence[float]) -> int:
        """An option's index; the weights of all options sum to one."""
        at = len(self._taken)
        if at < len(self._script):
            option = self._script[at]
        else:
            option, *others = [i for i, weight in enumerate(weights) if weight > 0]
            self.open.extend((*self._taken, other) for other in others)
        self._taken.append(option)
        self.weight *= float(weights[option])
        return option


def every_path(run: Callable[[Path], T]) -> Iterator[tuple[float, T]]:
    """The weight and the result of each path through a run, which must depend on path.choose() alone."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        path = Path(pending.pop())
        result = run(path)
        pending.extend(path.open)
        yield path.weight, result


class BranchingNoise:
    """Noise whose uniform() takes one value in each cell between the breakpoints of its position.

    Whoever compares u with a number that is no breakpoint gives some path a wrong weight, and the sum shows it.
    """

    def __init__(self, path: Path, breakpoints: Mapping[int, Sequence[float]]) -> None:
        self.path = path
        self._breakpoints = breakpoints

    def gumbel(self, position: int, ids: Ids) -> npt.NDArray[np.float64]:
        raise BrokenPromise("a draw that the enumeration does not see")

    def uniform(self, position: int) -> float:
        edges = [0.0, *sorted(b for b in self._breakpoints[position] if 0 < b < 1), 1.0]
        cell = self.path.choose(np.diff(edges).tolist())
        return (edges[cell] + edges[cell + 1]) / 2


class BranchingWalk(Walk):
    """A walk that draws by taking every token of the law in turn, with its probability for weight."""

    def __init__(self, sampler: Sampler, context: Sequence[int]) -> None:
        super().__init__(sampler, context)
        self._noise = sampler.noise

    def draw(self, law: Law) -> int | None:
        return pick(law, self._noise, self.position) if law.ids.size else None


def pick(law: Law, noise: Noise, position: int) -> int:
    """A token of a law that is not empty: every one in turn under BranchingNoise, else by the noise."""
    if isinstance(noise, BranchingNoise):
        return int(law.ids[noise.path.choose(law.probs.tolist())])
    token = sampling.draw(law, noise, position)
    assert token is not None
    return token
