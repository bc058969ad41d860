"""The processed distribution once more, apart from the decoder's own: neither can hide the other's fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids, Law, Rows, SamplingParams

Floats = npt.NDArray[np.float64]

_SLACK = 1e-5  # at the edges of top-p and min-p, where float32 and float64 may part


@dataclass(frozen=True, slots=True)
class Reference:
    """ids (m,), the likeliest first, probs (m,) that sum to one; possible: ids with some chance, edges included.

    clear: no id stands at an edge, where another way to round might decide otherwise.
    """

    ids: Ids
    probs: Floats
    possible: frozenset[int]
    clear: bool = True

    def prob(self, token: int) -> float:
        return float(self.probs[self.ids == token].sum())


def reference(row: Rows, history: Sequence[int], params: SamplingParams) -> Reference:
    """What a row of logits (n_vocab,) gives after the history: bias, penalties, top-k, top-p, min-p, temperature."""
    logits = row.astype(np.float64)
    for token, bias in params.logit_bias.items():
        if token < logits.size:
            logits[token] += bias
    n_recent = len(history) if params.repeat_last_n < 0 else min(params.repeat_last_n, len(history))
    for token, count in Counter(history[len(history) - n_recent :]).items():
        if token < logits.size:
            scale = 1 / params.repeat_penalty if logits[token] > 0 else params.repeat_penalty
            logits[token] = logits[token] * scale - count * params.frequency_penalty - params.presence_penalty
    if params.temperature <= 0:
        best = int(logits.argmax())
        ties = np.flatnonzero(logits >= logits[best] - _SLACK)
        return Reference(np.array([best]), np.ones(1), frozenset(ties.tolist()))
    k = params.top_k if 0 < params.top_k < logits.size else logits.size
    ids = np.flatnonzero(logits >= np.partition(logits, -k)[-k] - _SLACK)
    ids = ids[np.argsort(-logits[ids], kind="stable")]
    possible = _kept(ids, logits, params, _SLACK)
    ids = _kept(ids[:k], logits, params, 0.0)
    weights = np.exp((logits[ids] - logits[ids[0]]) / params.temperature)
    clear = possible.size == _kept(ids, logits, params, -_SLACK).size
    return Reference(ids, weights / weights.sum(), frozenset(possible.tolist()), clear)


def aligned(ids: Ids, law: Law | Reference) -> Floats:
    """The probabilities that a law gives to ids (m,); 0 for those outside it."""
    order = np.argsort(law.ids)
    at = order[np.minimum(np.searchsorted(law.ids, ids, sorter=order), law.ids.size - 1)]
    return np.where(law.ids[at] == ids, law.probs[at], 0.0)


def overlap(p: Reference, q: Law | Reference) -> float:
    """sum(min(p, q))."""
    return float(np.minimum(p.probs, aligned(p.ids, q)).sum())


def coupled(p: Reference, q: Law) -> float:
    """The chance that argmax(log p + g) and argmax(log q + g) are one token, over Gumbel noise g that both share.

    Sum over j of 1 / sum over i of max(p_i / p_j, q_i / q_j).
    """
    ids = np.union1d(p.ids, q.ids)
    of_p, of_q = aligned(ids, p), aligned(ids, q)
    both = np.flatnonzero((of_p > 0) & (of_q > 0))
    return float(sum(1 / np.maximum(of_p / of_p[j], of_q / of_q[j]).sum() for j in both))


def _kept(ids: Ids, logits: Floats, params: SamplingParams, slack: float) -> Ids:
    """What top-p and then min-p leave of ids (m,), the likeliest first."""
    weights = np.exp(logits[ids] - logits[ids[0]])
    n = ids.size
    if params.top_p < 1:
        n = int(np.searchsorted(weights.cumsum(), (params.top_p + slack) * weights.sum())) + 1
    found = weights[:n] >= params.min_p * (1 - slack)
    kept: Ids = ids[:n][found & (weights[:n] > 0)]
    return kept
