"""Drafts with a model of its own: a smaller GGUF over the same token ids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids, Law, PassResult, Plan, Proposal, Sampler, Target, Verdict
from specdec_cli.decoding.sampling import Row, Walk, certainty
from specdec_cli.drafters import MODEL

_FEW = 16  # tokens to catch up on in one pass; more go through as the target passes a prompt


class ModelDrafter:
    """Keeps its model's cache in line with the context, and decodes no token twice.

    n_shared: ids below it exist in both vocabularies. undraftable: (m,) ids below n_shared that mean something else to the
    target; they are masked out of q before the draw, and q is renormalised. stand_in: what the model is given for a token of
    the context that it does not have.
    """

    name = MODEL

    def __init__(self, model: Target, n_shared: int, undraftable: Ids, end_tokens: frozenset[int], stand_in: int = 0) -> None:
        self._model = model
        self._n_shared = n_shared
        self._undraftable = undraftable
        self._end_tokens = end_tokens
        self._stand_in = stand_in
        self._cached: list[int] = []  # the tokens that the model's cache holds
        self._pass_s = 0.0

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        """Draw up to plan.n_max tokens from the model, processed like the target's; see Drafter.propose."""
        self._pass_s = 0.0
        if len(context) > self._model.n_ctx:
            return Proposal(self.name)
        row = self._catch_up(context, changed)
        walk = Walk(sampler, context)
        point_mass = sampler.params.greedy
        proposal = _Growing()
        while True:
            law = walk.law(row)
            peak = _peak(row, law.probs, point_mass, plan)
            if peak < plan.p_min and len(proposal.tokens) >= plan.n_min:
                break
            x = walk.draw(law)
            if x is None:
                break
            proposal.tokens.append(x)
            proposal.q.append(None if point_mass else law)
            proposal.peak.append(peak)
            proposal.prob.append(math.nan if point_mass else law.prob(x))
            if len(proposal.tokens) == plan.n_max or x in self._end_tokens or self._model.n_cached == self._model.n_ctx:
                break
            walk.advance(x)
            row = self._decode([x])
        return proposal.freeze(self.name, self._pass_s)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        """The next propose() compares the context with the cache; nothing to do."""

    def settle(self, n: int) -> None:
        """Truncate the cache to n tokens."""
        if n < self._model.n_cached:
            self._model.keep(n)
        del self._cached[min(n, self._model.n_cached) :]

    def _catch_up(self, context: Sequence[int], changed: int) -> Row:
        """Bring the cache to exactly context; returns the last token's row (n_shared,)."""
        n_common = min(changed, len(self._cached), len(context) - 1)
        while n_common < min(len(self._cached), len(context) - 1) and self._cached[n_common] == context[n_common]:
            n_common += 1
        if n_common < self._model.n_cached:
            self._model.keep(n_common)
        del self._cached[n_common:]
        if len(context) - n_common > min(_FEW, self._model.max_piece) or n_common == 0:
            while (n := len(self._cached)) < len(context) - 1:
                piece = context[n : min(n + self._model.max_piece, len(context) - 1)]
                self._pass_s += self._model.feed(self._known(piece))
                self._cached.extend(piece)
        return self._decode(context[len(self._cached) :])

    def _known(self, tokens: Sequence[int]) -> list[int]:
        return [token if token < self._model.n_vocab else self._stand_in for token in tokens]

    def _decode(self, tokens: Sequence[int]) -> Row:
        result = self._model.decode(self._known(tokens), last_only=True)
        self._pass_s += result.seconds
        self._cached.extend(tokens)
        row: Row = result.rows[-1, : self._n_shared]
        row[self._undraftable] = -np.inf
        return row


class _Growing:
    """The lists of a proposal under way."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.q: list[Law | None] = []
        self.peak: list[float] = []
        self.prob: list[float] = []

    def freeze(self, drafter: str, pass_s: float) -> Proposal:
        return Proposal(drafter, tuple(self.tokens), tuple(self.q), tuple(self.peak), tuple(self.prob), pass_s=pass_s)


def _peak(row: Row, probs: npt.NDArray[np.float64], point_mass: bool, plan: Plan) -> float:
    """max q, known before the draw. Greedy's q is a point mass; there it is the row's own certainty, paid for if asked for."""
    if not point_mass:
        return float(probs.max(initial=0.0))
    return certainty(row) if plan.p_min > 0 else 1.0
