"""Drafts without a model: what followed the last tokens the last time they occurred, in prompt and output."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specdec_cli.decoding.contracts import PassResult, Plan, Proposal, Sampler, Verdict
from specdec_cli.drafters import NGRAM

N_MIN = 2  # tokens that must match
N_MAX = 16  # longer matches count as equal, and the most recent of them wins


class NgramDrafter:
    """Longest match of the context's end, then the most recent. The work of a round does not grow with the context."""

    name = NGRAM

    def __init__(self) -> None:
        # For each n: the n tokens -> the place after their most recent occurrence that has a next token.
        self._places: tuple[dict[tuple[int, ...], int], ...] = ()
        self._n_indexed = 0
        self._clear()

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        """Copy up to plan.n_max tokens from after the match, into the copy itself where it runs past the context's end."""
        if changed < self._n_indexed:
            self._clear()
        self._index(context)
        start = self._match(context)
        if start is None:
            return Proposal(self.name)
        period = len(context) - start
        tokens = [context[start + i % period] for i in range(plan.n_max)]
        tokens = _legal(tokens, sampler)
        n = len(tokens)
        return Proposal(self.name, tuple(tokens), (None,) * n, (1.0,) * n, (math.nan,) * n)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        """The index is made from the context alone; nothing to do."""

    def settle(self, n: int) -> None:
        """Forget what lies past the first n tokens."""
        if n < self._n_indexed:
            self._clear()

    def _clear(self) -> None:
        self._places = tuple({} for _ in range(N_MAX + 1))
        self._n_indexed = 0

    def _index(self, context: Sequence[int]) -> None:
        for end in range(max(self._n_indexed, N_MIN), len(context)):
            window = tuple(context[max(0, end - N_MAX) : end])
            for n in range(N_MIN, len(window) + 1):
                self._places[n][window[-n:]] = end
        self._n_indexed = len(context)

    def _match(self, context: Sequence[int]) -> int | None:
        window = tuple(context[-N_MAX:])
        for n in range(len(window), N_MIN - 1, -1):
            place = self._places[n].get(window[-n:])
            if place is not None:
                return place
        return None


def _legal(tokens: list[int], sampler: Sampler) -> list[int]:
    """The tokens up to the first that the constraint forbids: it would be refused."""
    if sampler.constraint is None:
        return tokens
    constraint = sampler.constraint.copy()
    for i, token in enumerate(tokens):
        if not constraint.allowed(np.array([token]))[0]:
            return tokens[:i]
        constraint.advance(token)
    return tokens
