"""From a row of logits to the processed distribution, and from that to a token."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Constraint, Ids, Law, Noise, Sampler, SamplingParams
from specdec_cli.errors import BackendError

Row = npt.NDArray[np.float32]

_NOBODY = Law(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))
_ONE = np.ones(1)
_MARGINS = (6.0, 12.0, 24.0)  # below the maximum; real rows hold 40 tokens within the first or second
_FIRST_BLOCK = 64


def largest(row: Row, k: int) -> Ids:
    """Ids of the k largest entries of row (n_vocab,), falling, equal ones by rising id.

    Finds a threshold below the maximum that leaves few candidates; a partition of the whole row is the fall-back.
    """
    if k < row.size:
        peak = row.max()
        for margin in _MARGINS:
            ids = np.flatnonzero(row >= peak - margin)
            if ids.size >= k:
                break
        else:
            ids = np.flatnonzero(row >= np.partition(row, row.size - k)[row.size - k])
        if ids.size > 2 * k:
            values = row[ids]
            ids = ids[values >= np.partition(values, ids.size - k)[ids.size - k]]
    else:
        ids = np.arange(row.size)
    return ids[np.argsort(-row[ids], kind="stable")[:k]]


def certainty(row: Row) -> float:
    """The largest probability of softmax(row): 1 / sum(exp(row - max))."""
    return 1.0 / float(np.exp(row - row.max()).sum(dtype=np.float64))


def processed(row: Row, recent: Sequence[int], params: SamplingParams, constraint: Constraint | None = None) -> Law:
    """The processed distribution of one row of logits (n_vocab,).

    logits + bias; penalties over recent; the constraint's mask; top-k; top-p; min-p; temperature, as llama.cpp orders its
    samplers (llama-sampler.cpp). The mask and the penalties commute, so only the best candidates are tested.
    recent: the tokens that penalties look at, oldest first. Raises BackendError on a row with NaN.
    """
    row = _adjusted(row, recent, params)
    if params.greedy:
        return _greedy(row, constraint)
    ids = _candidates(row, params, constraint)
    logits = row[ids].astype(np.float64)
    if ids.size == 0 or logits[0] == -math.inf:
        return _NOBODY
    logits -= logits[0]
    if params.top_p < 1:
        mass = np.exp(logits).cumsum()
        whole = params.top_k <= 0 and constraint is None  # then ids are only the best of those that remain
        total = _total_mass(row) if whole else mass[-1]
        n_kept = int(np.searchsorted(mass, params.top_p * total)) + 1
        ids, logits = ids[:n_kept], logits[:n_kept]
    if params.min_p > 0:
        kept = logits >= math.log(min(params.min_p, 1.0))
        ids, logits = ids[kept], logits[kept]
    weights = np.exp(logits / params.temperature)
    probs = weights / weights.sum()
    possible = probs > 0
    return Law(ids, probs) if possible.all() else Law(ids[possible], probs[possible])


def draw(law: Law, noise: Noise, position: int) -> int | None:
    """argmax(log p + g), g the noise's Gumbel values at the position; None when the law is empty."""
    if law.ids.size <= 1:
        return int(law.ids[0]) if law.ids.size else None
    return int(law.ids[np.argmax(np.log(law.probs) + noise.gumbel(position, law.ids))])


class Walk:
    """The processing at successive places: committed context, then one token after another.

    Row i of a pass is processed with the history context + tokens[:i]; so the walk takes each token before the next row.
    It works on its own copy of the constraint.
    """

    def __init__(self, sampler: Sampler, context: Sequence[int]) -> None:
        self.position = len(context)
        self._sampler = sampler
        self._constraint = sampler.constraint.copy() if sampler.constraint is not None else None
        params = sampler.params
        self._n_recent = len(context) if params.repeat_last_n < 0 else params.repeat_last_n
        self._recent = list(context[-self._n_recent :]) if params.penalised and self._n_recent else []

    def law(self, row: Row) -> Law:
        """The processed distribution at this place."""
        return processed(row, self._recent, self._sampler.params, self._constraint)

    def draw(self, law: Law) -> int | None:
        """A token of the law with the sampler's noise at this place."""
        return draw(law, self._sampler.noise, self.position)

    def advance(self, token: int) -> None:
        """Take a token of the law and go to the next place."""
        self.position += 1
        if self._constraint is not None:
            self._constraint.advance(token)
        if self._sampler.params.penalised:
            self._recent.append(token)
            if self._sampler.params.repeat_last_n >= 0:
                del self._recent[: -self._n_recent]


def _adjusted(row: Row, recent: Sequence[int], params: SamplingParams) -> Row:
    """The row with bias and penalties; the row itself where there are none."""
    if not params.logit_bias and not (params.penalised and recent):
        return row
    row = row.copy()
    for token, bias in params.logit_bias.items():
        if 0 <= token < row.size:
            row[token] += np.float32(bias)
    if params.penalised:
        for token, count in Counter(recent).items():
            if token >= row.size:
                continue
            logit = row[token]
            logit = logit * params.repeat_penalty if logit <= 0 else logit / params.repeat_penalty
            row[token] = logit - count * params.frequency_penalty - params.presence_penalty
    return row


def _greedy(row: Row, constraint: Constraint | None) -> Law:
    best = int(row.argmax())
    _refuse_nan(row[best])
    ids = np.array([best]) if constraint is None else _legal(row, 1, constraint)
    if ids.size == 0 or row[ids[0]] == -math.inf:
        return _NOBODY
    return Law(ids, _ONE)


def _candidates(row: Row, params: SamplingParams, constraint: Constraint | None) -> Ids:
    """Ids that top-k leaves, falling by logit; without top-k, at least those that top-p and min-p can leave."""
    peak = row.max()
    _refuse_nan(peak)
    if peak == -math.inf:
        return _NOBODY.ids
    if params.top_k > 0:
        k = min(params.top_k, row.size)
        return largest(row, k) if constraint is None else _legal(row, k, constraint)
    if constraint is not None:
        return _legal(row, row.size, constraint)
    if params.top_p >= 1:
        floor = peak + math.log(min(params.min_p, 1.0)) if params.min_p > 0 else -math.inf
        ids = np.flatnonzero(row >= floor)
        return ids[np.argsort(-row[ids], kind="stable")]
    total = _total_mass(row)
    n = _FIRST_BLOCK
    while True:
        ids = largest(row, n)
        if n >= row.size or np.exp((row[ids] - row[ids[0]]).astype(np.float64)).sum() >= params.top_p * total:
            return ids
        n = min(n * 8, row.size)


def _total_mass(row: Row) -> float:
    """sum(exp(row - max)), float64."""
    return float(np.exp((row - row.max()).astype(np.float64)).sum())


def _legal(row: Row, k: int, constraint: Constraint) -> Ids:
    """The k largest legal ids, falling: tested in growing blocks, because a mask of everything is slow."""
    found: list[Ids] = []
    n_found = n_tested = 0
    n = max(_FIRST_BLOCK, min(k, row.size))
    while n_found < k and n_tested < row.size:
        block = largest(row, n)[n_tested:]
        block = block[row[block] > -math.inf]
        if block.size == 0:
            break
        n_tested = min(n, row.size)
        legal = block[constraint.allowed(block)]
        found.append(legal)
        n_found += legal.size
        n *= 4
    return np.concatenate(found)[:k] if found else _NOBODY.ids


def _refuse_nan(value: np.float32) -> None:
    if math.isnan(value):
        raise BackendError(
            "The model returned NaN instead of logits.",
            "A damaged file, or a cache type or GPU kernel that overflows, does this.",
            "Try -fa off and -ctk f16 -ctv f16, and compare the file's checksum with its source.",
        )
