"""Drafts with a model of its own: a smaller GGUF over the same token ids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids, Law, Offer, PassResult, Plan, Proposal, Sampler, Target, Verdict
from specdec_cli.decoding.sampling import Row, Walk, certainty
from specdec_cli.drafters import MODEL

_FEW = 16  # tokens to catch up on in one pass; more go through as the target passes a prompt


class ModelDrafter:
    """Keeps its model's cache in line with the context, and decodes no token twice.

    n_shared: ids below it exist in both vocabularies. undraftable: (m,) ids below n_shared that mean something else to the
    target; they are masked out of q before the draw, and q is renormalised. stand_in: what the model is given for a token of
    the context that it does not have. Where more would have to be caught up on than the plan's window, or than the model's
    context holds, it begins anew with the last tokens: it guesses a little worse then, and starts much sooner.
    """

    name = MODEL

    def __init__(self, model: Target, n_shared: int, undraftable: Ids, end_tokens: frozenset[int], stand_in: int = 0) -> None:
        self._model = model
        self._n_shared = n_shared
        self._undraftable = undraftable
        self._end_tokens = end_tokens
        self._stand_in = stand_in
        self._base = 0  # the position at which the model's cache begins
        self._cached: list[int] = []  # the tokens that it holds
        self._changed = 0  # the lowest position that may differ from what propose() saw last
        self._pass_s, self._feed_s, self._n_rows, self._n_fed = 0.0, 0.0, 0, 0  # of the proposal under way

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        """Always something; how certain it is takes a pass to know."""
        self._changed = min(self._changed, changed)
        n_known = min(self._base + len(self._cached), self._changed)
        return {self.name: Offer(n_behind=max(len(context) - 1 - n_known, 0))}

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        """Draw up to plan.n_max tokens from the model, processed like the target's; see Drafter.propose."""
        self._pass_s, self._feed_s, self._n_rows, self._n_fed = 0.0, 0.0, 0, 0
        row = self._catch_up(context, min(self._changed, changed), plan.window)
        self._changed = len(context)
        walk = Walk(sampler, context)
        point_mass = sampler.params.greedy
        proposal = _Growing()
        while True:
            law = walk.law(row)
            peak = _peak(row, law.probs, point_mass, plan)
            if not plan.draws(len(proposal.tokens), peak):
                break
            x = walk.draw(law)
            if x is None:
                break
            prob = math.nan if point_mass else law.prob(x)
            proposal.tokens.append(x)
            proposal.q.append(None if point_mass else law)
            proposal.peak.append(peak)
            proposal.prob.append(prob)
            if (
                x in self._end_tokens
                or self._model.n_cached == self._model.n_ctx
                or not plan.extends(len(proposal.tokens), prob)
            ):
                break
            walk.advance(x)
            row = self._decode([x])
        return replace(
            proposal.freeze(self.name),
            pass_s=self._pass_s + self._feed_s,
            n_passes=self._n_rows,
            n_fed=self._n_fed,
            feed_s=self._feed_s,
        )

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        """The next propose() compares the context with the cache; nothing to do."""

    def settle(self, n: int) -> None:
        """Truncate the cache to n tokens."""
        self._changed = min(self._changed, n)
        self._keep(min(max(n - self._base, 0), self._model.n_cached))

    def _catch_up(self, context: Sequence[int], changed: int, window: int | None) -> Row:
        """Bring the cache to the end of the context; returns the last token's row (n_shared,)."""
        n_last = len(context) - 1
        n_common = self._in_line(context, changed)
        if len(context) - self._base > self._model.n_ctx:  # half of it stays free for what comes
            self._base, n_common = max(n_last - self._model.n_ctx // 2, 0), 0
        if window is not None and n_last - self._base - n_common > window:
            self._base, n_common = n_last - window, 0
        self._keep(n_common)
        if n_last + 1 - self._base - n_common > min(_FEW, self._model.max_piece) or n_common == 0:
            while (n := self._base + len(self._cached)) < n_last:
                piece = context[n : min(n + self._model.max_piece, n_last)]
                self._feed_s += self._model.feed(self._known(piece))
                self._cached.extend(piece)
            self._n_fed = len(self._cached) - n_common
        return self._decode(context[self._base + len(self._cached) :])

    def _in_line(self, context: Sequence[int], changed: int) -> int:
        """How many tokens of the cache are those of the context; all but its last at the most."""
        n_most = max(min(len(self._cached), len(context) - 1 - self._base), 0)
        n_common = min(max(changed - self._base, 0), n_most)
        while n_common < n_most and self._cached[n_common] == context[self._base + n_common]:
            n_common += 1
        if n_common == 0:
            self._base = 0
        return n_common

    def _keep(self, n: int) -> None:
        """Keep the first n tokens of the cache."""
        if n < self._model.n_cached:
            self._model.keep(n)
        del self._cached[n:]

    def _known(self, tokens: Sequence[int]) -> list[int]:
        return [token if token < self._model.n_vocab else self._stand_in for token in tokens]

    def _decode(self, tokens: Sequence[int]) -> Row:
        result = self._model.decode(self._known(tokens), last_only=True)
        self._pass_s += result.seconds
        self._n_rows += 1
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

    def freeze(self, drafter: str) -> Proposal:
        return Proposal(drafter, tuple(self.tokens), tuple(self.q), tuple(self.peak), tuple(self.prob))


def _peak(row: Row, probs: npt.NDArray[np.float64], point_mass: bool, plan: Plan) -> float:
    """max q, known before the draw. Greedy's q is a point mass; there it is the row's own certainty, paid for if asked for."""
    if not point_mass:
        return float(probs.max(initial=0.0))
    return certainty(row) if plan.p_min > 0 or plan.reins is not None else 1.0
