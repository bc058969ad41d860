"""Whatever the governor decides, the text stays as it is: enumerated exactly under reject, compared with plain under match.

The real loop, the real reject() and the real Governor run; only chance and the clock are replaced. What the governor must
not act on is planted, and the enumeration has to find it biased.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding import loop, verification
from specdec_cli.decoding.acceptance import Calibration
from specdec_cli.decoding.contracts import Constraint, Drafter, Offer, Plan, Proposal, Round, Sampler
from specdec_cli.decoding.governor import Account
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.loop import generate
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters import MODEL, NGRAM
from specdec_cli.drafters import model as model_drafter
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from tests.decoding.test_reject_law import DRAFT, PROMPT, TARGET, Pairs, bias, breakpoints, certain, q_of_draft, two_of
from tests.fakes.branches import BranchingNoise, BranchingWalk, Path, every_path
from tests.fakes.drafters import FakeDrafter
from tests.fakes.priced import PricedGovernor
from tests.fakes.runs import GREEDY, PURE, SEEDED, job, plain, run
from tests.fakes.target import TableTarget, blended, hashed

Pass = Callable[[int], float]

# What decides in each: nothing, the peaks, the peaks and the first draws, and that no draft can pay.
PRICES: dict[str, Pass] = {
    "cheap": lambda n: 1 + 0.05 * (n - 1),
    "middle": lambda n: 1 + 0.4 * (n - 1),
    "stepped": lambda n: 1.0 if n == 1 else 1.3 if n == 2 else 1.4,
    "dear": lambda n: 1 + 1.5 * (n - 1),
}
every_price = pytest.mark.parametrize("price", PRICES)


class Copying(FakeDrafter):
    """Deterministic, and of a certainty that depends on the place; holds to its plan."""

    name = NGRAM

    def choose(self, context: Sequence[int], plan: Plan, sampler: Sampler) -> Proposal:
        tokens: list[int] = []
        peaks: list[float] = []
        while len(tokens) < plan.n_max:
            peak = 0.3 + 0.6 * ((len(context) + len(tokens)) % 2)
            if not plan.draws(len(tokens), peak):
                break
            tokens.append((sum(context) + len(tokens)) % 3)
            peaks.append(peak)
            if not plan.extends(len(tokens), math.nan):
                break
        n = len(tokens)
        return Proposal(self.name, tuple(tokens), (None,) * n, tuple(peaks), (math.nan,) * n)


def modelled() -> ModelDrafter:
    return ModelDrafter(TableTarget(DRAFT), 3, np.array([], dtype=np.int64), frozenset())


def copying() -> Copying:
    return Copying()


def both() -> SeveralDrafters:
    return SeveralDrafters([modelled(), copying()])


def half_right() -> Calibration:
    """Of a drafter that was right in half of its tokens lately; its certainties count for more than that."""
    calibration = Calibration()
    for i in range(20):
        calibration.observe(math.nan, i % 2 == 0)
    return calibration


def governor(price: str, kind: type[PricedGovernor] = PricedGovernor, *, trims: bool = False, **limits: Any) -> PricedGovernor:
    accounts = {
        name: Account(step_s, 0.01, half_right(), half_right(), tokens=12.0, seconds=10.0)
        for name, step_s in ((MODEL, 0.05), (NGRAM, 0.0))
    }
    return kind(PRICES[price], accounts, limits.pop("n_max", 2), **limits, trims=trims)


def first_two(make: Callable[[], Drafter], govern: Callable[[], PricedGovernor]) -> tuple[Pairs, set[int]]:
    """The exact law of the first two tokens of a governed run, and the lengths of the drafts that were verified in it."""
    marks: dict[int, list[float]] = breakpoints(certain, PURE) if make is copying else breakpoints(q_of_draft, PURE)
    if make in (both, ChoosingLate):
        marks = {position: sorted({*cuts, *breakpoints(certain, PURE)[position]}) for position, cuts in marks.items()}
    now: list[Path] = []
    lengths: set[int] = set()

    def branching(rule: Rule, asked: Any, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
        sampler = Sampler(asked, BranchingNoise(now[-1], marks), constraint)
        return sampler, sampler

    def once(path: Path) -> tuple[int, int]:
        now[:] = [path]
        governing = govern()
        events = generate(Generation(job(PROMPT, 3, PURE, Rule.REJECT)), TableTarget(TARGET, max_pass=8), make(), governing)
        pair = two_of(events)
        lengths.update(done.n_drafted for done in governing.seen)
        return pair

    pairs: Pairs = defaultdict(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "samplers", branching)
        patch.setattr(verification, "Walk", BranchingWalk)
        patch.setattr(model_drafter, "Walk", BranchingWalk)
        for weight, pair in every_path(once):
            pairs[pair] += weight
    assert sum(pairs.values()) == pytest.approx(1, abs=1e-12)
    return pairs, lengths


@every_price
@pytest.mark.parametrize("make", [modelled, copying, both])
def test_a_governed_draft_leaves_p_as_it_is(price: str, make: Callable[[], Drafter]) -> None:
    pairs, _ = first_two(make, lambda: governor(price))
    assert bias(pairs) < 1e-12


class Begun(PricedGovernor):
    """Lets one drafter begin each draft, so that the other one can but draft on."""

    first = MODEL
    n_mixed = 0

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:
        return super().plan(room, left, {name: offer for name, offer in offers.items() if name == self.first})

    def observe(self, done: Round) -> None:
        type(self).n_mixed += [bool(part) for part in done.proposal.parts] == [True, True]
        super().observe(done)


class BegunByCopying(Begun):
    first = NGRAM


@pytest.mark.parametrize("kind", [Begun, BegunByCopying])
def test_a_draft_behind_another_leaves_p_as_it_is(kind: type[Begun]) -> None:
    for price in PRICES:
        for limits in ({}, {"n_min": 2}, {"p_min": 0.45}):
            pairs, _ = first_two(both, lambda price=price, limits=limits: governor(price, kind, **limits))  # type: ignore[misc]
            assert bias(pairs) < 1e-12
    assert kind.n_mixed > 0


@pytest.mark.parametrize(("n_min", "p_min"), [(1, 0.0), (2, 0.0), (0, 0.45), (1, 0.6)])
@every_price
def test_the_persons_limits_leave_p_as_it_is(price: str, n_min: int, p_min: float) -> None:
    pairs, _ = first_two(modelled, lambda: governor(price, n_min=n_min, p_min=p_min))
    assert bias(pairs) < 1e-12


def test_the_enumeration_sees_the_stop_rule_at_work() -> None:
    assert first_two(modelled, lambda: governor("middle"))[1] >= {0, 1}
    assert len(first_two(modelled, lambda: governor("stepped"))[1]) > 1
    assert 2 in first_two(modelled, lambda: governor("cheap"))[1]
    assert first_two(modelled, lambda: governor("dear"))[1] == {0}


@every_price
def test_a_deterministic_draft_may_be_trimmed(price: str) -> None:
    """By its certainty, by its length, and by its very tokens."""

    class Fickle(PricedGovernor):
        def trim(self, proposal: Proposal) -> Proposal:
            kept = super().trim(proposal)
            return kept.cut(0) if len(kept) == 1 or kept.tokens[-1:] == (2,) else kept

    for kind in (PricedGovernor, Fickle):
        pairs, _ = first_two(copying, lambda kind=kind: governor(price, kind, trims=True))  # type: ignore[misc]
        assert bias(pairs) < 1e-12


# What is forbidden: planted faults, which have to show.


class DropsTheUnlikelyLast(PricedGovernor):
    def trim(self, proposal: Proposal) -> Proposal:
        return proposal.cut(len(proposal) - 1) if proposal and proposal.prob[-1] < 0.4 else proposal


class DropsTheUnlikelyFromTheFirst(PricedGovernor):
    def trim(self, proposal: Proposal) -> Proposal:
        n = next((i for i, prob in enumerate(proposal.prob) if prob < 0.4), len(proposal))
        return proposal.cut(n)


class DropsTheShort(PricedGovernor):
    def plan(self, *asked: Any) -> Plan:
        return replace(super().plan(*asked), p_min=0.5, n_min=1)

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal if len(proposal) >= 2 else proposal.cut(0)


class DropsBehindABadMatch(Begun):
    """Takes back what the model drew where the match that drafts on looks bad: which match that is hangs on the draw."""

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal.cut(0) if len(proposal.parts) == 2 and proposal.parts[1].tokens == (1,) else proposal


def test_dropping_what_was_drawn_for_the_match_behind_it_biases() -> None:
    pairs, _ = first_two(both, lambda: governor("cheap", DropsBehindABadMatch))
    assert bias(pairs) > 0.01


@pytest.mark.parametrize("kind", [DropsTheUnlikelyLast, DropsTheUnlikelyFromTheFirst, DropsTheShort])
def test_dropping_a_sampled_token_biases(kind: type[PricedGovernor]) -> None:
    pairs, _ = first_two(modelled, lambda: governor("cheap", kind))
    assert bias(pairs) > 0.01


class TrimsWhatIsDrawn(PricedGovernor):
    """Drafts to the end, so that trim() has all to decide; the real one, told that it may."""

    def plan(self, *asked: Any) -> Plan:
        return replace(super().plan(*asked), reins=None)


def test_trimming_as_match_allows_it_biases_under_reject() -> None:
    pairs, _ = first_two(modelled, lambda: governor("middle", TrimsWhatIsDrawn, trims=True))
    assert bias(pairs) > 0.01
    pairs, _ = first_two(modelled, lambda: governor("middle", TrimsWhatIsDrawn))
    assert bias(pairs) < 1e-12


class ChoosingLate:
    """Two drafters as one; takes the second one's draft when it does not like the token that the first has drawn."""

    name = "late"

    def __init__(self) -> None:
        self._first, self._second = modelled(), copying()

    def offers(self, *asked: Any) -> Any:
        self._second.offers(*asked)
        return self._first.offers(*asked)

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        drawn = self._first.propose(context, changed, plan, sampler)
        if drawn and drawn.prob[0] < 0.4:
            return self._second.propose(context, changed, plan, sampler)
        return drawn

    def observe(self, *seen: Any) -> None: ...

    def settle(self, n: int) -> None: ...


def test_choosing_a_drafter_by_a_token_already_drawn_biases() -> None:
    pairs, _ = first_two(ChoosingLate, lambda: governor("cheap"))
    assert bias(pairs) > 0.01


# Under match, and greedily, the text is the plain run's.

N_VOCAB = 5
TABLE = hashed(N_VOCAB, seed=1, order=2)
NEAR = blended(TABLE, hashed(N_VOCAB, seed=2), 0.3)


def all_drafters() -> list[Drafter]:
    model = ModelDrafter(TableTarget(NEAR, n_ctx=200), N_VOCAB, np.array([], dtype=np.int64), frozenset())
    return [model, NgramDrafter()]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    slopes=st.lists(st.floats(0.01, 2.0), min_size=9, max_size=9),
    step_s=st.floats(0.01, 1.0),
    n_min=st.integers(0, 4),
    p_min=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 99),
    params=st.sampled_from([GREEDY, SEEDED, PURE]),
    which=st.sampled_from(["model", "ngram", "both"]),
)
def test_under_match_every_governor_leaves_the_text_as_it_is(
    slopes: list[float], step_s: float, n_min: int, p_min: float, seed: int, params: Any, which: str
) -> None:
    drafters = {"model": all_drafters()[:1], "ngram": all_drafters()[1:], "both": all_drafters()}[which]
    accounts = {MODEL: Account(step_s, step_s / 4), NGRAM: Account(0.0, 0.0)}
    governing = PricedGovernor(lambda n: 1 + sum(slopes[: n - 1]), accounts, 8, n_min, p_min, trims=True)
    asked = job(n_predict=40, params=replace(params, seed=seed))
    assert run(asked, TableTarget(TABLE), SeveralDrafters(drafters), governing).said == plain(asked, TABLE).said
