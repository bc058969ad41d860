"""A governor gives the reason of each plan, and what it expected."""

from __future__ import annotations

import math

import pytest

from specdec_cli.decoding.contracts import Offer, Plan, Proposal, Reason
from specdec_cli.decoding.governor import FixedGovernor, Governor
from tests.decoding.test_governor import OFFER, cheap, done, drafted, hopeless, lengths, made


def why_of(plan: Plan) -> tuple[Reason, float, int, float, float]:
    assert plan.why is not None
    why = plan.why
    return why.reason, why.rate, why.length, why.tokens, why.seconds


def test_a_drafter_that_pays_is_the_reason_with_what_it_promises() -> None:
    governor = made(cheap)
    lengths(governor, 40, 0.9, right=True)
    reason, rate, length, tokens, seconds = why_of(governor.plan(16, math.inf, OFFER))
    assert reason is Reason.PAYS
    assert rate == pytest.approx(1.0, rel=0.2)
    assert length > 4
    assert tokens / seconds > rate
    assert seconds == pytest.approx(governor.costs(length + 1) + length * governor.accounts["model"].step_s)


def played(governor: Governor, n_rounds: int, peak: float) -> list[Plan]:
    """The plans of rounds in which nothing is accepted."""
    plans = []
    for _ in range(n_rounds):
        plan = governor.plan(16, math.inf, OFFER)
        proposal = governor.trim(drafted(plan, peak)) if plan.n_max else Proposal("none")
        governor.observe(done(governor, proposal, 0))
        plans.append(plan)
    return plans


def test_without_gain_the_best_draft_is_named_all_the_same() -> None:
    plans = played(made(hopeless), 60, 0.1)
    reasons = {why_of(plan)[0] for plan in plans}
    assert reasons == {Reason.NO_GAIN}
    for plan in plans:
        _, rate, length, tokens, seconds = why_of(plan)
        assert plan.n_max == 0
        assert length >= 1
        assert tokens / seconds <= rate


def test_a_probe_is_called_one() -> None:
    plans = played(made(cheap), 400, 0.05)
    probes = [plan for plan in plans if why_of(plan)[0] is Reason.PROBE]
    assert probes
    assert all(plan.n_max > 0 for plan in probes)
    assert all((plan.n_max == 0) == (why_of(plan)[0] is Reason.NO_GAIN) for plan in plans)


@pytest.mark.parametrize(("room", "reason"), [(0, Reason.NO_ROOM), (-1, Reason.NO_ROOM), (4, Reason.NO_OFFER)])
def test_where_there_is_nothing_to_decide_the_reason_says_so(room: int, reason: Reason) -> None:
    plan = made(cheap).plan(room, math.inf, {})
    assert plan.n_max == 0
    assert why_of(plan)[0] is reason


def test_a_long_catching_up_before_the_end_is_a_reason() -> None:
    governor = made(cheap)
    lengths(governor, 40, 0.9, right=True)
    plan = governor.plan(16, 4, {"model": Offer(n_behind=2000)})
    assert plan.n_max == 0
    assert why_of(plan)[0] is Reason.CATCH_UP


def test_a_fixed_length_has_no_reason() -> None:
    assert FixedGovernor(4).plan(8, math.inf, OFFER).why is None
