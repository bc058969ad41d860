"""Tell rounding from a fault: pass a run's committed tokens again, with other rejected tokens, and compare the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from specdec_cli.decoding.contracts import PassResult, Round, Rows, Target
from specdec_cli.decoding.loop import Job
from specdec_cli.decoding.sampling import largest
from specdec_cli.decoding.verification import samplers, verifier
from specdec_cli.decoding.widths import row_digest


class Cause(StrEnum):
    ROUNDING = "rounding"  # every token is the rule's answer on its row, and the row comes back bit for bit
    FAULT = "fault"  # a row depends on what was rejected, or a token is not the rule's answer


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which a speculative run differs from the plain one, and why.

    gap: between the two largest logits of the row that decided there. noise: the largest difference of that row from one
    passed at width 1. They explain; they are not the criterion.
    """

    position: int  # in tokens from the start of the context
    cause: Cause
    why: str
    gap: float
    noise: float


class Recorder:
    """A target that remembers, for each pass with logits, the digest of every row. Hand it to generate()."""

    def __init__(self, inner: Target) -> None:
        self._inner = inner
        self.n_ctx, self.n_vocab = inner.n_ctx, inner.n_vocab
        self.pieces: list[tuple[int, ...]] = []
        self.digests: list[tuple[bytes, ...]] = []  # one entry a pass with logits

    @property
    def max_pass(self) -> int:
        return self._inner.max_pass

    @property
    def max_piece(self) -> int:
        return self._inner.max_piece

    @property
    def n_cached(self) -> int:
        return self._inner.n_cached

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        result = self._inner.decode(tokens, last_only=last_only)
        self.digests.append(tuple(row_digest(row) for row in result.rows))
        return result

    def feed(self, tokens: Sequence[int]) -> float:
        self.pieces.append(tuple(tokens))
        return self._inner.feed(tokens)

    def keep(self, n: int) -> None:
        self._inner.keep(n)


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index at which two runs differ, their common length if one is longer, None when they are equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def explain(target: Target, job: Job, recorded: Recorder, rounds: Sequence[Round], index: int) -> Difference:
    """Replay a run up to its emitted token number index, where it differs from the plain run.

    target: the run's own, at any state; it is emptied first. recorded: what it passed in the run. The pass boundaries are
    the run's; only the tokens that verification refused are others.
    """
    context = list(job.prompt)
    position = len(context) + index
    constraint = job.constraint.copy() if job.constraint is not None else None
    target.keep(0)
    for piece in recorded.pieces:
        target.feed(piece)
    for done, digests in zip(rounds, recorded.digests, strict=False):
        tokens = _with_other_rejects(done, context[-1], target.n_vocab)
        rows = target.decode(tokens).rows
        row = rows[min(max(position - len(context), 0), done.n_accepted)].copy()
        gap, fault = _gap(row), ""
        if [row_digest(rows[i]) for i in range(done.n_accepted + 1)] != list(digests[: done.n_accepted + 1]):
            fault = "a row changed when only rejected tokens changed"
        else:
            _, sampler = samplers(job.rule, job.params, constraint, done.index)
            verdict = verifier(job.rule)(done.proposal, rows, context, sampler)
            answer = (*done.proposal.tokens[: verdict.n_accepted], verdict.next_token)
            if answer[: len(done.emitted)] != done.emitted:
                fault = "a token is not the rule's answer on the row that decided it"
        n_before = len(context)
        context.extend(done.emitted)
        if constraint is not None:
            for token in done.emitted:
                constraint.advance(token)
        if fault:
            return Difference(n_before, Cause.FAULT, fault, gap, 0.0)
        if len(context) > position:
            target.keep(position - 1)
            noise = float(np.abs(target.decode(context[position - 1 : position]).rows[0] - row).max())
            return Difference(position, Cause.ROUNDING, "the row came back bit for bit", gap, noise)
        target.keep(len(context) - 1)
    return Difference(len(context), Cause.FAULT, "the run ended where the plain run goes on", 0.0, 0.0)


def _with_other_rejects(done: Round, last: int, n_vocab: int) -> list[int]:
    """The tokens of a round's pass, with every refused draft token replaced by another."""
    valid = done.proposal.tokens[: done.n_drafted - done.n_invalid]
    accepted = valid[: done.n_accepted]
    return [last, *accepted, *((token + 1 + i) % n_vocab for i, token in enumerate(valid[done.n_accepted :]))]


def _gap(row: Rows) -> float:
    first, second = row[largest(row, 2)]
    return float(first - second)
