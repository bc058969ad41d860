"""The governor on numbers alone: what it decides, and what it earns on simulated machines and texts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.acceptance import Calibration
from specdec_cli.decoding.contracts import Kind, Offer, Plan, Proposal, Reins, Round
from specdec_cli.decoding.costs import CostCurve
from specdec_cli.decoding.governor import Account, FixedGovernor, Governor, Prices
from tests.fakes.economy import CURVES, N_MAX, SAMPLED, Machine, best_fixed_s, fixed_s, governed, governor_of, written

OFFER = {"model": Offer()}


def cheap(n: int) -> float:
    return 1 + 0.05 * (n - 1)


def hopeless(n: int) -> float:
    return float(n)


def made(
    pass_s: Callable[[int], float], step_s: float = 0.05, *, trims: bool = True, n_min: int = 0, p_min: float = 0.0
) -> Governor:
    costs = CostCurve({n: pass_s(n) for n in range(1, 18)})
    return Governor(costs, {"model": Account(step_s, step_s / 4)}, 16, n_min, p_min, trims=trims)


def drafted(plan: Plan, peak: float, *, trims: bool = True) -> Proposal:
    """The draft of a drafter that gives each token this certainty, and holds to its plan."""
    n, n_rows = 0, 0
    while True:
        n_rows += 1
        if not plan.draws(n, peak):
            break
        n += 1
        if not plan.extends(n, math.nan if trims else peak):
            break
    q, prob = (None, math.nan) if trims else (SAMPLED, peak)
    return Proposal("model", (0,) * n, (q,) * n, (peak,) * n, (prob,) * n, n_passes=n_rows)


def done(governor: Governor, proposal: Proposal, n_accepted: int) -> Round:
    pass_s = governor.costs(len(proposal) + 1)
    draft_s = proposal.n_passes * governor.accounts["model"].step_s
    proposal = replace(proposal, pass_s=draft_s)
    emitted = (0,) * (n_accepted + 1)
    return Round(0, 0, proposal, n_accepted, Kind.BONUS, emitted, "", (), (), len(proposal) + 1, 0, draft_s, pass_s, 0.0, 0.0)


def lengths(governor: Governor, n_rounds: int, peak: float, right: bool) -> list[int]:
    """Play rounds in which all tokens are accepted, or none; returns the lengths drafted."""
    found = []
    for _ in range(n_rounds):
        plan = governor.plan(16, math.inf, OFFER)
        proposal = governor.trim(drafted(plan, peak)) if plan.n_max else Proposal("none")
        governor.observe(done(governor, proposal, len(proposal) if right else 0))
        found.append(len(proposal))
    return found


# Prices.


chance = st.floats(0, 1)
prices = st.builds(
    Prices,
    pass_s=st.lists(st.floats(0.5, 10), min_size=1, max_size=10).map(tuple),
    step_s=st.floats(0, 2),
    rate=st.floats(0.01, 3),
    floor=st.sampled_from([0.0, 0.0, 0.6]),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(prices, st.lists(chance, max_size=10), chance, st.integers(0, 10))
def test_the_best_length_is_the_best_of_all(price: Prices, chances: list[float], beyond: float, n_rows: int) -> None:
    def worth(n: int) -> float:
        every = [max(one, price.floor) for one in [*chances, *[beyond] * 10][:n]]
        tokens = sum(math.prod(every[:i]) for i in range(n + 1))
        return tokens - price.rate * (price.pass_s[n] + max(n - n_rows, 0) * price.step_s)

    best = price.best_length(chances, n_rows, beyond)
    assert worth(best) == pytest.approx(max(worth(n) for n in range(len(price.pass_s))))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(prices, st.floats(0.1, 3))
def test_the_least_chance_pays_and_a_lower_one_does_not(price: Prices, rate: float) -> None:
    least = price.least_chance(rate)
    if least:
        assert price.best_rate(least) > rate
        assert price.best_rate(least - 0.03) <= rate or least < 0.03
    else:
        assert price.best_rate(0.98) <= rate


# Decisions.


def test_steps_of_four_are_taken_whole() -> None:
    found = lengths(made(CURVES["stepped"]), 30, 0.9, True)
    assert all((n + 1) % 4 == 0 or n == 16 for n in found[5:])


def test_good_drafts_grow_to_the_longest() -> None:
    assert lengths(made(cheap), 30, math.nan, True)[-1] == 16


def test_bad_drafts_end_soon_and_probes_are_seldom() -> None:
    found = lengths(made(CURVES["coder q4"]), 500, math.nan, False)
    assert sum(n > 0 for n in found[:20]) <= 3
    assert 0 < sum(n > 0 for n in found[20:]) <= 25


def test_nothing_is_drafted_where_not_even_perfect_drafts_would_pay() -> None:
    governor = made(hopeless)
    assert all(governor.plan(16, math.inf, OFFER).n_max == 0 for _ in range(3))
    assert set(lengths(governor, 500, 0.99, True)) == {0}


def test_it_comes_back_when_the_text_turns() -> None:
    governor = made(CURVES["coder f16"])
    lengths(governor, 150, math.nan, False)
    found = lengths(governor, 300, math.nan, True)
    assert all(n > 0 for n in found[-50:])


def test_a_text_that_turns_bad_is_left_within_a_few_rounds() -> None:
    governor = made(CURVES["coder f16"])
    lengths(governor, 60, 0.9, True)
    assert sum(n > 0 for n in lengths(governor, 40, 0.9, False)) <= 25


def test_an_outlier_sends_nobody_to_rest() -> None:
    governor = made(CURVES["coder f16"])
    lengths(governor, 30, math.nan, True)
    plan = governor.plan(16, math.inf, OFFER)
    proposal = governor.trim(drafted(plan, math.nan))
    slow = done(governor, proposal, len(proposal))
    slow = Round(**{name: getattr(slow, name) for name in slow.__slots__} | {"pass_s": 50 * slow.pass_s, "host_s": 9.0})
    governor.observe(slow)
    assert min(lengths(governor, 20, math.nan, True)) > 0


def test_the_better_of_two_drafters_drafts() -> None:
    costs = CostCurve({n: cheap(n) for n in range(1, 18)})
    good, bad = Calibration(), Calibration()
    for i in range(60):
        good.observe(0.9, i % 20 != 0)
        bad.observe(0.9, i % 3 == 0)
    for names in (("a", "b"), ("b", "a")):
        accounts = {name: Account(0.0, 0.0, good if name == "a" else bad) for name in names}
        plan = Governor(costs, accounts, 8, trims=True).plan(8, math.inf, {name: Offer(0.9) for name in names})
        assert plan.drafter == "a"


def test_a_certain_match_is_taken_before_a_model_and_an_uncertain_one_is_not() -> None:
    accounts = {"model": Account(0.1, 0.02), "ngram": Account(0.0, 0.0)}
    governor = Governor(CostCurve({n: cheap(n) for n in range(1, 18)}), accounts, 8, trims=True)
    assert governor.plan(8, math.inf, {"model": Offer(), "ngram": Offer(0.9995)}).drafter == "ngram"
    assert governor.plan(8, math.inf, {"model": Offer(), "ngram": Offer(0.1)}).drafter == "model"


@pytest.mark.parametrize(
    ("left", "n_behind", "begins"), [(200, 10, True), (20, 100_000, False), (2, 300, False), (math.inf, 100_000, True)]
)
def test_a_prompt_that_cannot_come_back_is_not_passed_through_the_draft(left: float, n_behind: int, begins: bool) -> None:
    plan = made(CURVES["coder f16"]).plan(16, left, {"model": Offer(n_behind=n_behind)})
    assert (plan.n_max > 0) == begins


def test_no_room_is_plain() -> None:
    assert made(cheap).plan(0, 1, OFFER).n_max == 0
    assert made(cheap).plan(-3, 1, OFFER).n_max == 0
    assert made(cheap).plan(16, math.inf, {}).n_max == 0


def test_room_bounds_the_draft() -> None:
    assert made(cheap).plan(3, math.inf, OFFER).n_max == 3


@pytest.mark.parametrize("peak", [0.01, 0.6, 0.99, math.nan])
def test_a_shortest_draft_that_was_asked_for_is_kept_to(peak: float) -> None:
    governor = made(cheap, n_min=4)
    for _ in range(10):
        plan = governor.plan(16, math.inf, OFFER)
        if plan.n_max:
            proposal = governor.trim(drafted(plan, peak))
            assert len(proposal) >= 4
            governor.observe(done(governor, proposal, 0))


def test_a_least_certainty_that_was_asked_for_is_kept_to() -> None:
    plan = made(cheap, p_min=0.8).plan(16, math.inf, OFFER)
    assert len(drafted(plan, 0.79)) == 0
    assert len(drafted(plan, 0.95)) > 0


def test_under_reject_a_sampled_draft_is_left_as_it_is() -> None:
    governor = made(CURVES["coder f16"], trims=False)
    plan = governor.plan(16, math.inf, OFFER)
    sampled = Proposal("model", (1, 2, 3), (SAMPLED,) * 3, (0.9, 0.1, 0.1), (0.001, 0.001, 0.001), n_passes=3)
    assert plan.n_max > 0
    assert governor.trim(sampled) is sampled


def test_what_is_not_worth_its_pass_is_trimmed_where_that_is_allowed() -> None:
    governor = made(CURVES["coder f16"])
    assert governor.plan(16, math.inf, OFFER).n_max > 0
    told = Proposal("model", (1, 2, 3), (None,) * 3, (0.99, 0.02, 0.02), (math.nan,) * 3, n_passes=3)
    assert len(governor.trim(told)) <= 1


# One drafts on behind another.


def two(pass_s: Callable[[int], float], step_s: float = 0.05, *, trims: bool = False) -> Governor:
    accounts = {
        "model": Account(step_s, step_s / 4, tokens=15.0, seconds=10.0),
        "ngram": Account(0.0, 0.0, tokens=15.0, seconds=10.0),
    }
    return Governor(CostCurve({n: pass_s(n) for n in range(1, 18)}), accounts, 16, trims=trims)


def part(name: str, peaks: list[float]) -> Proposal:
    """Drafted with these certainties: by a model, which draws, or by copying."""
    n, sampled = len(peaks), name == "model"
    probs = tuple(peaks) if sampled else (math.nan,) * n
    q = (SAMPLED if sampled else None,) * n
    return Proposal(name, (0,) * n, q, tuple(peaks), probs, n_passes=n * sampled)


def reins_of(governor: Governor, name: str, certainty: float = math.nan) -> Reins:
    reins = governor.plan(16, math.inf, {name: Offer(certainty)}).reins
    assert reins is not None
    return reins


def test_a_certain_match_goes_on_behind_a_model_and_an_uncertain_one_does_not() -> None:
    drawn = part("model", [0.95, 0.95])
    assert reins_of(two(cheap), "model").pass_on(drawn, {"ngram": Offer(0.9995)}) == "ngram"
    assert reins_of(two(CURVES["coder f16"]), "model").pass_on(drawn, {"ngram": Offer(0.02)}) == ""
    assert reins_of(two(cheap), "model").pass_on(drawn, {}) == ""


@pytest.mark.parametrize(("n_behind", "step_s", "name"), [(2, 0.05, "model"), (2000, 0.05, ""), (2, 0.8, "")])
def test_a_model_goes_on_behind_a_match_where_its_rows_and_what_it_has_missed_come_back(
    n_behind: int, step_s: float, name: str
) -> None:
    reins = reins_of(two(cheap, step_s), "ngram", 0.9995)
    assert reins.pass_on(part("ngram", [0.9995] * 2), {"model": Offer(n_behind=n_behind)}) == name


def test_a_model_does_not_go_on_behind_tokens_that_will_hardly_be_accepted() -> None:
    reins = reins_of(two(cheap), "ngram", 0.9995)
    assert reins.pass_on(part("ngram", [0.02, 0.02]), {"model": Offer(n_behind=2)}) == ""


def test_who_goes_on_stops_sooner_behind_uncertain_tokens() -> None:
    """The chances that are there already count: a row is worth less, the less likely it is to be reached."""

    def n_drawn(before: float) -> int:
        reins = reins_of(two(cheap, 0.1), "ngram", 0.9995)
        assert reins.pass_on(part("ngram", [before] * 2), {"model": Offer()}) == "model"
        return len(drafted(Plan(14, reins=reins), 0.8, trims=False))

    assert n_drawn(0.9995) > n_drawn(0.6)


def test_a_probe_is_left_to_the_one_that_is_on_trial() -> None:
    governor = two(cheap)
    reins = reins_of(governor, "model")
    governor.accounts["model"].n_probes = 2
    assert reins.pass_on(part("model", [0.95]), {"ngram": Offer(0.9995)}) == ""


def test_behind_what_was_drawn_a_match_is_trimmed_and_no_further() -> None:
    governor = two(CURVES["coder f16"])
    reins_of(governor, "model")
    drawn = part("model", [0.02, 0.02])
    assert governor.trim(drawn.followed_by(part("ngram", [0.02] * 4))).tokens == drawn.tokens
    governor = two(cheap)
    reins_of(governor, "model")
    both = part("model", [0.95, 0.95]).followed_by(part("ngram", [0.9995] * 4))
    assert governor.trim(both) == both
    drawn_last = part("ngram", [0.02] * 2).followed_by(part("model", [0.02] * 2))
    assert governor.trim(drawn_last) == drawn_last


@pytest.mark.parametrize("n_accepted", range(6))
def test_each_account_learns_from_its_own_tokens_alone(n_accepted: int) -> None:
    governor = two(cheap)
    reins_of(governor, "model")
    both = part("model", [0.95, 0.95]).followed_by(part("ngram", [0.6, 0.6, 0.6]))
    before = {name: account.by_peak.known() for name, account in governor.accounts.items()}
    governor.observe(done(governor, both, n_accepted))
    judged = {
        name: sum(now != old for now, old in zip(account.by_peak.known(), before[name], strict=True))
        for name, account in governor.accounts.items()
    }
    assert judged == {"model": 1, "ngram": int(n_accepted >= 2)}  # one bin each
    assert governor.accounts["model"].tokens <= 15 + 3  # of the round as the model alone would have had it
    assert governor.accounts["ngram"].tokens == 15
    assert all(account.n_waited == 0 for account in governor.accounts.values())


# Others.


def test_a_proposal_of_a_stranger_is_left_alone() -> None:
    governor = made(cheap)
    strange = Proposal("other", (1,), (None,), (0.1,), (math.nan,))
    assert governor.trim(strange) is strange
    governor.observe(done(governor, strange, 1))


def test_the_fixed_one_drafts_what_it_was_told() -> None:
    governor = FixedGovernor(5, 2, 0.3)
    assert governor.plan(16, math.inf, OFFER) == Plan(5, 2, 0.3, "model")
    assert governor.plan(3, math.inf, OFFER).n_max == 3
    assert governor.plan(-1, 0, {}).n_max == 0


# Regret. Each seed is one text and one clock; the bounds hold for means over seeds.

MIXES = [
    (curve, step_s, text, certainty)
    for i, curve in enumerate(CURVES)
    for j, (step_s, text) in enumerate(
        [(0.05, "great"), (0.2, "code"), (0.05, "prose"), (0.2, "drifting"), (0.05, "alternating"), (0.2, "poor")]
    )
    for certainty in [("calibrated", "over-confident", "constant", "silent")[(i + j) % 4]]
]


@pytest.mark.parametrize("trims", [True, False])
def test_it_earns_what_the_best_fixed_length_in_hindsight_would(trims: bool) -> None:
    ratios = []
    for curve, step_s, kind, certainty in MIXES:
        machine = Machine(CURVES[curve], step_s, step_s / 4)
        of_best, of_plain = [], []
        for seed in range(2):
            text = written(kind, certainty, 600, seed)
            seconds = governed(machine, text, governor_of(machine, trims=trims, seed=seed), trims=trims, seed=seed).seconds
            of_best.append(best_fixed_s(machine, text) / seconds)
            of_plain.append(fixed_s(machine, text, 0) / seconds)
        mix = (curve, step_s, kind, certainty)
        assert statistics.mean(of_plain) > 0.97, mix
        assert statistics.mean(of_best) > 0.94, mix
        ratios.append(statistics.mean(of_best))
    assert statistics.mean(ratios) > 1.0
    assert sum(ratio >= 0.97 for ratio in ratios) >= len(ratios) - 4


@pytest.mark.parametrize("text", ["poor", "prose"])
def test_probes_of_a_draft_that_cannot_pay_cost_less_than_a_fiftieth(text: str) -> None:
    machine = Machine(CURVES["dear"], 0.2, 0.05)
    for certainty in ("calibrated", "silent"):
        lost = []
        for seed in range(4):
            earned = governed(
                machine,
                written(text, certainty, 1000, seed),
                governor_of(machine, trims=True, seed=seed),
                trims=True,
                seed=seed,
            )
            lost.append((earned.drafted_s - earned.n_drafted_tokens) / 1000)
        assert statistics.mean(lost) < 0.02


def test_the_longest_draft_is_what_the_simulation_assumes() -> None:
    assert governor_of(Machine(cheap, 0.1), trims=True).plan(99, math.inf, OFFER).n_max == N_MAX
