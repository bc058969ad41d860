"""A session on fakes, and faults to plant into the real decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.decoding import loop, verification
from specdec_cli.decoding.contracts import (
    Constraint,
    Drafter,
    Governor,
    Kind,
    Law,
    Plan,
    Proposal,
    Rows,
    Sampler,
    SamplingParams,
    Target,
    Verdict,
)
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event, Job, generate
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.sampling import Walk
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters import model as model_drafter
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.proof import subject
from specdec_cli.proof.subject import Prompt, Work
from specdec_cli.session import Request
from tests.fakes.target import TableTarget, blended, hashed

N_VOCAB = 14
TARGET = hashed(N_VOCAB, seed=3, scale=2.0, order=3)
DRAFT = blended(TARGET, hashed(N_VOCAB, seed=4, scale=2.0, order=3), 0.45)
PARAMS = SamplingParams(temperature=0.8, top_k=9, top_p=0.97, min_p=0.02)
N_CTX = 128


class FakeSession:
    """A session whose target and draft are tables."""

    def __init__(self, drafter: Drafter | None = None, *, n_max: int = 7) -> None:
        context = ContextOptions(n_ctx=N_CTX)
        self.options = SessionOptions(ModelOptions(Path("fake.gguf")), context, n_max=n_max)
        self.table = TableTarget(TARGET, n_ctx=N_CTX)
        self.target: Target = self.table
        self.drafter: Drafter | None = drafter or ModelDrafter(
            TableTarget(DRAFT, n_ctx=N_CTX), N_VOCAB, np.array([], dtype=np.int64), frozenset()
        )
        self.n_draft_max = n_max

    def job(self, request: Request) -> Job:
        return Job(
            prompt=request.prompt,
            n_predict=request.n_predict,
            params=request.params,
            rule=self.options.rule,
            n_ctx=N_CTX,
            end_tokens=frozenset(),
            piece=lambda token: str(token).encode(),
        )

    def forget(self) -> None:
        self.target.keep(0)

    def generate(self, request: Request, *, target: Target | None = None, governor: Governor | None = None) -> Iterator[Event]:
        self.target.keep(0)
        yield from generate(
            Generation(self.job(request)), target or self.target, self.drafter, governor or FixedGovernor(self.n_draft_max)
        )


def work(seed: int = 1, session: FakeSession | None = None) -> Work:
    return Work(
        session or FakeSession(),
        (Prompt("one", (1, 2, 3)), Prompt("two", (4, 5))),
        (PARAMS, replace(PARAMS, temperature=1.0)),
        lambda: TableTarget(TARGET, n_ctx=N_CTX),
        lambda: TableTarget(DRAFT, n_ctx=N_CTX),
        N_VOCAB,
        np.array([], dtype=np.int64),
        seed,
    )


def steps_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a clock go on by one each time that it is looked at, so that a budget is a number of steps."""
    ticks = count()
    monkeypatch.setattr(subject, "monotonic", lambda: float(next(ticks)))


Plant = Callable[[pytest.MonkeyPatch], None]


def accept_all(patch: pytest.MonkeyPatch) -> None:
    def faulty(proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict:
        walk = Walk(sampler, context)
        p, q = [], []
        for i, x in enumerate(proposal.tokens):
            law, of_q = walk.law(rows[i]), proposal.q[i]
            p.append(law.prob(x))
            q.append(1.0 if of_q is None else of_q.prob(x))
            walk.advance(x)
        last = walk.draw(walk.law(rows[len(proposal)]))
        return Verdict(len(proposal), last, Kind.BONUS, tuple(p), tuple(q))

    patch.setattr(verification, "reject", faulty)


def residual_not_subtracted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verification, "residual", lambda p, q, x: p)


def residual_of_a_point_mass(patch: pytest.MonkeyPatch) -> None:
    whole = verification.residual
    patch.setattr(verification, "residual", lambda p, q, x: whole(p, None, x))


def q_not_processed(patch: pytest.MonkeyPatch) -> None:
    def raw(sampler: Sampler, context: Sequence[int]) -> Walk:
        params = replace(sampler.params, temperature=2.0, top_k=0, top_p=1.0, min_p=0.0)
        return Walk(sampler if sampler.params.greedy else replace(sampler, params=params), context)

    patch.setattr(model_drafter, "Walk", raw)


def q_misreported(patch: pytest.MonkeyPatch) -> None:
    def flat(law: Law | None) -> Law | None:
        return None if law is None else Law(law.ids, law.probs**0.5 / (law.probs**0.5).sum())

    _changed(patch, lambda proposal, plan: replace(proposal, q=tuple(map(flat, proposal.q))))


def bonus_from_q(patch: pytest.MonkeyPatch) -> None:
    right = verification.reject

    def faulty(proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict:
        verdict = right(proposal, rows, context, sampler)
        q = proposal.q[-1] if len(proposal) else None
        if verdict.kind is Kind.RECOVERED or q is None:
            return verdict
        walk = Walk(sampler, (*context, *proposal.tokens))
        return replace(verdict, next_token=walk.draw(q))

    patch.setattr(verification, "reject", faulty)


def own_probability(patch: pytest.MonkeyPatch) -> None:
    _kept(patch, lambda probs, n_max: next((i for i, prob in enumerate(probs) if prob < 0.2), len(probs)))


def next_probability(patch: pytest.MonkeyPatch) -> None:
    _kept(patch, lambda probs, n_max: 0 if len(probs) > 1 and probs[1] < 0.2 else len(probs))


def short_draft(patch: pytest.MonkeyPatch) -> None:
    _kept(patch, lambda probs, n_max: 0 if len(probs) < min(2, n_max) else len(probs))


def shared_noise(patch: pytest.MonkeyPatch) -> None:
    right = verification.samplers

    def faulty(rule: Rule, params: SamplingParams, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
        for_drafter, _ = right(rule, params, constraint, n_round)
        return for_drafter, for_drafter

    patch.setattr(loop, "samplers", faulty)


def match_by_the_draft(patch: pytest.MonkeyPatch) -> None:
    right = verification.match

    def faulty(proposal: Proposal, rows: Rows, context: Sequence[int], sampler: Sampler) -> Verdict:
        verdict = right(proposal, rows, context, sampler)
        if sampler.params.greedy or verdict.kind is Kind.BONUS or verdict.p[-1] < 0.1:
            return verdict
        return replace(verdict, next_token=proposal.tokens[verdict.n_accepted])

    patch.setattr(verification, "match", faulty)


def target_keeps(by: int) -> Plant:
    return lambda patch: _keeps(patch, by, draft=False)


def draft_keeps(by: int) -> Plant:
    return lambda patch: _keeps(patch, by, draft=True)


def _keeps(patch: pytest.MonkeyPatch, by: int, *, draft: bool) -> None:
    """A cache that goes back to the wrong length, and says the right one: the token at the place is its neighbour's."""
    right = TableTarget.keep

    def faulty(self: TableTarget, n: int) -> None:
        if (self.table is DRAFT) == draft and 1 < n < len(self.cached):
            self.cached[n - 1] = self.cached[n - 1 + by]
        right(self, n)

    patch.setattr(TableTarget, "keep", faulty)


def _changed(patch: pytest.MonkeyPatch, change: Callable[[Proposal, Plan], Proposal]) -> None:
    right = ModelDrafter.propose

    def faulty(self: ModelDrafter, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        proposal = right(self, context, changed, plan, sampler)
        return proposal if sampler.params.greedy else change(proposal, plan)

    patch.setattr(ModelDrafter, "propose", faulty)


def _kept(patch: pytest.MonkeyPatch, n: Callable[[Sequence[float], int], int]) -> None:
    """Leave out what was drawn, and hide that rows were computed for it."""

    def cut(proposal: Proposal, plan: Plan) -> Proposal:
        kept = proposal.cut(n(proposal.prob, plan.n_max))
        return replace(kept, n_passes=len(kept) + 1)

    _changed(patch, cut)
