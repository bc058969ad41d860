"""The two rules that decide how much of a proposal stands: match and reject. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np

from specdec_cli.decoding.contracts import Constraint, Kind, Law, Proposal, Rows, Sampler, SamplingParams, Verdict
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import Walk

_DRAFT_STREAM, _VERIFY_STREAM = 1, 2


class Rule(StrEnum):
    """How a proposal is judged."""

    MATCH = "match"
    REJECT = "reject"


class Verify(Protocol):
    """(proposal of n, rows (>= n + 1 or the last token invalid), context, sampler) -> Verdict."""

    def __call__(self, proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict: ...


def match(proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict:
    """Accept draft tokens while they are the target's own draw.

    t = argmax(log p + g) with noise g of (seed, position, id) decides at each place, so the text never depends on the draft.
    With the drafter on the same noise: Daliri, Musco, Suresh 2024 (arXiv 2408.07978). Greedy: g plays no part.
    """
    walk = Walk(sampler, context)
    p: list[float] = []
    q: list[float] = []
    for i, x in enumerate(proposal.tokens):
        law = walk.law(rows[i])
        t = walk.draw(law)
        p.append(law.prob(x))
        q.append(_prob(proposal.q[i], x))
        if t != x:
            return Verdict(i, t, Kind.RECOVERED, tuple(p), tuple(q), law)
        walk.advance(x)
    law = walk.law(rows[len(proposal)])
    return Verdict(len(proposal), walk.draw(law), Kind.BONUS, tuple(p), tuple(q), law)


def reject(proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict:
    """Rejection sampling: every emitted token is a draw from p, whatever q was.

    Accept x when u q(x) < p(x), u in [0, 1); at the first refusal draw from norm(max(p - q, 0)); after all acceptances draw
    from p (Leviathan, Kalman, Matias 2023, arXiv 2211.17192, algorithm 1; Chen et al. 2023, arXiv 2302.01318).
    The sampler's noise must be independent of the drafter's.
    """
    walk = Walk(sampler, context)
    p: list[float] = []
    q: list[float] = []
    for i, x in enumerate(proposal.tokens):
        law = walk.law(rows[i])
        px, qx = law.prob(x), _prob(proposal.q[i], x)
        p.append(px)
        q.append(qx)
        if qx <= 0 or sampler.noise.uniform(walk.position) * qx >= px:
            t = walk.draw(residual(law, proposal.q[i], x))
            return Verdict(i, t, Kind.RECOVERED, tuple(p), tuple(q), law)
        walk.advance(x)
    law = walk.law(rows[len(proposal)])
    return Verdict(len(proposal), walk.draw(law), Kind.BONUS, tuple(p), tuple(q), law)


def residual(p: Law, q: Law | None, x: int) -> Law:
    """norm(max(p - q, 0)); q None is a point mass on x. p itself where nothing is left (p and q equal up to rounding)."""
    if q is None:
        q = Law(np.array([x], dtype=np.int64), np.ones(1))
    order = np.argsort(q.ids)
    at = np.minimum(np.searchsorted(q.ids, p.ids, sorter=order), q.ids.size - 1)
    found = order[at]
    left = p.probs - np.where(q.ids[found] == p.ids, q.probs[found], 0.0)
    kept = left > 0
    mass = left[kept].sum()
    return Law(p.ids[kept], left[kept] / mass) if mass > 0 else p


def verifier(rule: Rule) -> Verify:
    """The function of a rule."""
    return match if rule is Rule.MATCH else reject


def samplers(rule: Rule, params: SamplingParams, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
    """The drafter's and the verifier's sampler of a round.

    match: both have the noise of the seed alone. reject: two independent streams, and fresh noise in every round, because
    noise that an earlier round has seen at a place could steer whether a draft reaches that place again.
    """
    if rule is Rule.MATCH:
        shared = Sampler(params, noise_for(params.seed), constraint)
        return shared, shared
    return (
        Sampler(params, noise_for(params.seed, _DRAFT_STREAM, n_round), constraint),
        Sampler(params, noise_for(params.seed, _VERIFY_STREAM, n_round), constraint),
    )


def _prob(q: Law | None, x: int) -> float:
    return 1.0 if q is None else q.prob(x)
