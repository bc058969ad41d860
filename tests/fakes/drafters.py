"""Drafters of every character, which also check that they are shown what Drafter.propose promises."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from specdec_cli.decoding.contracts import Law, Offer, PassResult, Plan, Proposal, Sampler, Verdict
from tests.fakes.branches import pick
from tests.fakes.target import BrokenPromise


class FakeDrafter(ABC):
    """Checks what it is shown; choose() makes the proposal."""

    name = "fake"

    def __init__(self) -> None:
        self.seen: tuple[int, ...] = ()
        self.changes: list[int] = []
        self.plans: list[Plan] = []
        self.verdicts: list[Verdict] = []
        self.settled: list[int] = []

    @abstractmethod
    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal: ...

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        if not 0 <= changed <= len(self.seen) or tuple(context[:changed]) != self.seen[:changed]:
            raise BrokenPromise(f"context changed below {changed}: {self.seen} -> {context}")
        self.seen = tuple(context)
        self.changes.append(changed)
        return {self.name: Offer()}

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        if not 0 <= changed <= len(self.seen) or tuple(context[:changed]) != self.seen[:changed]:
            raise BrokenPromise(f"context changed below {changed}: {self.seen} -> {context}")
        if plan.n_max < 1 or not context:
            raise BrokenPromise("asked for a draft of nothing, or after nothing")
        self.seen = tuple(context)
        self.plans.append(plan)
        return self.choose(context, plan, sampler)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        if np.isnan(result.rows).any() or verdict.n_accepted >= result.rows.shape[0]:
            raise BrokenPromise("rows that another pass has overwritten, or fewer than were judged")
        self.verdicts.append(verdict)

    def settle(self, n: int) -> None:
        self.seen = self.seen[:n]
        self.settled.append(n)


def point_masses(tokens: Sequence[int]) -> Proposal:
    """A deterministic drafter's proposal."""
    n = len(tokens)
    return Proposal("fake", tuple(tokens), (None,) * n, (1.0,) * n, (math.nan,) * n)


class Oracle(FakeDrafter):
    """Replays a recorded run: right for n_right tokens of each draft, and wrong at the positions in wrong_at."""

    def __init__(
        self,
        run: Sequence[int],
        n_vocab: int,
        *,
        n_right: int | None = None,
        wrong_at: frozenset[int] = frozenset(),
        extra: int = 0,
    ) -> None:
        super().__init__()
        self._run, self._n_vocab, self._extra = tuple(run), n_vocab, extra
        self._n_right = len(run) if n_right is None else n_right
        self._wrong_at = wrong_at

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        start = len(context)
        tokens = list(self._run[start : start + plan.n_max + self._extra])
        for i, token in enumerate(tokens):
            if i >= self._n_right or start + i in self._wrong_at:
                tokens[i] = (token + 1) % self._n_vocab
        return point_masses(tokens)


class PassingOn:
    """Reins that let the one who begins draft n tokens, and hand over to whoever offers. Keeps what was drawn by chance."""

    def __init__(self, n: int = 99) -> None:
        self.asked: list[tuple[Proposal, Mapping[str, Offer]]] = []
        self._n, self._n_drawn = n, 0

    def draw(self, peak: float) -> bool:
        return True

    def extend(self, prob: float) -> bool:
        self._n_drawn += 1
        return self._n_drawn != self._n

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal if self.asked else proposal.cut(max(proposal.n_sampled, self._n))

    def pass_on(self, proposal: Proposal, offers: Mapping[str, Offer]) -> str:
        self.asked.append((proposal, offers))
        return next(iter(offers), "")


class Silent(FakeDrafter):
    """Never has an idea."""

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        return point_masses(())


class Scattered(FakeDrafter):
    """Draws from all tokens alike, and says so (spread), or hides it behind point masses."""

    def __init__(self, n_vocab: int, seed: int = 0, *, spread: bool = False) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._law = Law(np.arange(n_vocab), np.full(n_vocab, 1 / n_vocab))
        self._spread = spread

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        n_vocab = self._law.ids.size
        tokens = tuple(self._random.randrange(n_vocab) for _ in range(plan.n_max))
        if not self._spread:
            return point_masses(tokens)
        n = len(tokens)
        return Proposal("fake", tokens, (self._law,) * n, (1 / n_vocab,) * n, (1 / n_vocab,) * n)


class Planting(FakeDrafter):
    """An oracle that puts foreign tokens into its draft, from place at on, and goes on after them."""

    def __init__(self, run: Sequence[int], planted: Sequence[int], at: int = 0) -> None:
        super().__init__()
        self._run, self._planted, self._at = tuple(run), tuple(planted), at

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        right = self._run[len(context) : len(context) + plan.n_max]
        return point_masses((*right[: self._at], *self._planted, *right[self._at :])[: plan.n_max])


class Mixture(FakeDrafter):
    """Takes turns between others, in an order that looks random."""

    def __init__(self, parts: Sequence[FakeDrafter], seed: int = 0) -> None:
        super().__init__()
        self._parts, self._random = parts, random.Random(seed)

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        return self._random.choice(self._parts).choose(context, plan, sampler)


class Drawing(FakeDrafter):
    """Draws from a table of q by the sampler's noise, as a model does.

    stop: whether to stop before a draw, told what was drawn, from which q, and the q of this draw. kept: how many of the
    drawn tokens to propose, told all tokens and their q: only a planted fault looks at those.
    """

    def __init__(
        self,
        q: Callable[[tuple[int, ...]], Law],
        *,
        stop: Callable[[Sequence[int], Sequence[Law], Law], bool] = lambda tokens, laws, law: False,
        kept: Callable[[Sequence[int], Sequence[Law]], int] = lambda tokens, laws: len(tokens),
    ) -> None:
        super().__init__()
        self._q, self._stop, self._kept = q, stop, kept

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        tokens: list[int] = []
        laws: list[Law] = []
        while len(tokens) < plan.n_max:
            law = self._q((*context, *tokens))
            if self._stop(tokens, laws, law):
                break
            tokens.append(pick(law, sampler.noise, len(context) + len(tokens)))
            laws.append(law)
        peaks = tuple(float(law.probs.max()) for law in laws)
        probs = tuple(law.prob(token) for token, law in zip(tokens, laws, strict=True))
        return Proposal("fake", tuple(tokens), tuple(laws), peaks, probs).cut(self._kept(tokens, laws))


Cast = Callable[[Sequence[int], int, int], FakeDrafter]  # (recorded run, n_vocab, an end token) -> drafter


def _hostile(run: Sequence[int], n_vocab: int, end: int) -> FakeDrafter:
    return Mixture([make(run, n_vocab, end) for name, make in CAST.items() if name != "hostile"])


CAST: dict[str, Cast] = {
    "oracle": lambda run, n_vocab, end: Oracle(run, n_vocab),
    "oracle with faults": lambda run, n_vocab, end: Oracle(run, n_vocab, wrong_at=frozenset(range(0, 99, 5))),
    "right twice": lambda run, n_vocab, end: Oracle(run, n_vocab, n_right=2),
    "contrarian": lambda run, n_vocab, end: Oracle(run, n_vocab, n_right=0),
    "overlong": lambda run, n_vocab, end: Oracle(run, n_vocab, extra=7),
    "silent": lambda run, n_vocab, end: Silent(),
    "random": lambda run, n_vocab, end: Scattered(n_vocab),
    "random and honest": lambda run, n_vocab, end: Scattered(n_vocab, spread=True),
    "end token first": lambda run, n_vocab, end: Planting(run, (end,)),
    "end token third": lambda run, n_vocab, end: Planting(run, (end, end), at=2),
    "below the vocabulary": lambda run, n_vocab, end: Planting(run, (-1,), at=1),
    "past the vocabulary": lambda run, n_vocab, end: Planting(run, (n_vocab,)),
    "far past the vocabulary": lambda run, n_vocab, end: Planting(run, (2**31, -(2**31)), at=3),
    "hostile": _hostile,
}
