"""Machines and texts made of numbers: what a governor would have earned there, with no model and no clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specdec_cli.decoding.contracts import Kind, Law, Offer, Plan, Proposal, Round
from specdec_cli.decoding.costs import CostCurve
from specdec_cli.decoding.governor import Account, Governor

N_MAX = 16
SAMPLED = Law(np.array([0]), np.ones(1))  # the q of a token of which all that counts is that it was drawn

_CODER_F16 = (91, 115, 128, 131, 137, 148, 191, 203, 200, 220)  # ms, measured on two cores
_CODER_Q4 = (28, 57, 77, 94, 116, 137, 176, 214, 230, 250)


def _measured(ms: tuple[int, ...], slope: float) -> Callable[[int], float]:
    return lambda n: (ms[n - 1] if n <= len(ms) else ms[-1] + slope * (n - len(ms))) / ms[0]


# Seconds of a pass of n tokens, where one of one token takes one.
CURVES: dict[str, Callable[[int], float]] = {
    "cheap": lambda n: 1 + 0.08 * (n - 1),
    "dear": lambda n: 1 + 0.6 * (n - 1),
    "flat": lambda n: 1 + 0.02 * (n - 1),
    "concave": lambda n: 1 + 0.5 * math.sqrt(n - 1),
    "convex": lambda n: 1 + 0.03 * (n - 1) ** 1.7,
    "stepped": lambda n: 1.0 if n == 1 else 0.9 + math.ceil(n / 4),
    "coder f16": _measured(_CODER_F16, 15),
    "coder q4": _measured(_CODER_Q4, 20),
}

# The mean chance of acceptance at token t of n.
TEXTS: dict[str, Callable[[int, int], float]] = {
    "great": lambda t, n: 0.93,
    "code": lambda t, n: 0.8,
    "prose": lambda t, n: 0.45,
    "poor": lambda t, n: 0.2,
    "drifting": lambda t, n: 0.85 - 0.6 * t / n,
    "alternating": lambda t, n: 0.88 if (t // 80) % 2 == 0 else 0.3,
}

# What a drafter says of a token whose true chance is x.
CERTAINTIES: dict[str, Callable[[float], float]] = {
    "calibrated": lambda x: x,
    "over-confident": math.sqrt,
    "constant": lambda x: 0.9,
    "silent": lambda x: math.nan,
}


@dataclass(frozen=True)
class Text:
    """Whether the drafter would be right at each token, and how certain it would be of it."""

    right: tuple[bool, ...]
    certainty: tuple[float, ...]


@dataclass(frozen=True)
class Machine:
    """What everything costs, and how badly it is measured."""

    pass_s: Callable[[int], float]
    step_s: float
    feed_s: float = 0.0
    noise: float = 0.04  # standard deviation of log seconds
    outliers: float = 0.01  # share of the passes that take five times as long


@dataclass
class Earned:
    """What came of a run."""

    seconds: float = 0.0
    drafted_s: float = 0.0  # of the rounds with a drafter
    n_drafted_tokens: int = 0  # emitted in these
    n_rounds: int = 0
    n_drafting: int = 0


def written(kind: str, certainty: str, n: int, seed: int) -> Text:
    """A text of n tokens whose chances spread widely around their mean, most of them near 0 and 1."""
    rng = random.Random(f"{kind} {seed}")
    right, said = [], []
    for t in range(n):
        mean = TEXTS[kind](t, n)
        chance = min(max(rng.betavariate(1.5 * mean, 1.5 * (1 - mean)), 1e-4), 1 - 1e-4)
        right.append(rng.random() < chance)
        said.append(CERTAINTIES[certainty](chance))
    return Text(tuple(right), tuple(said))


def fixed_s(machine: Machine, text: Text, k: int) -> float:
    """Seconds of the text with drafts of k tokens throughout."""
    at, seconds, n = 0, 0.0, len(text.right)
    while at < n:
        drafted = min(k, n - at - 1)
        accepted = _n_right(text, at, drafted)
        seconds += drafted * machine.step_s + machine.pass_s(drafted + 1)
        at += accepted + 1
    return seconds


def best_fixed_s(machine: Machine, text: Text) -> float:
    return min(fixed_s(machine, text, k) for k in range(N_MAX + 1))


def governor_of(machine: Machine, *, trims: bool, seed: int = 0, n_max: int = N_MAX) -> Governor:
    """A governor that knows nothing but a calibration of the machine."""
    rng = random.Random(f"calibration {seed}")
    measured = {n: machine.pass_s(n) * rng.lognormvariate(0, machine.noise) for n in (1, 2, 3, 4, 6, 8, 12, 17)}
    step_s = machine.step_s * rng.lognormvariate(0, machine.noise)
    return Governor(CostCurve(measured), {"model": Account(step_s, machine.feed_s)}, n_max, trims=trims)


def governed(machine: Machine, text: Text, governor: Governor, *, trims: bool, seed: int = 0) -> Earned:
    """Play the text through a governor: rounds as the loop runs them, times as a clock would measure them."""
    rng = random.Random(f"clock {seed}")
    earned, at, shown, n = Earned(), 0, 0, len(text.right)
    while at < n:
        plan = governor.plan(min(N_MAX, n - at - 1), n - at, {"model": Offer(n_behind=at - shown)})
        proposal, draft_s = Proposal("none"), 0.0
        if plan.n_max:
            n_fed, shown = min(at - shown, plan.window if plan.window is not None else at), at
            proposal, draft_s = _draft(machine, text, at, plan, n_fed, trims)
            proposal = governor.trim(proposal)
            shown += min(len(proposal), max(proposal.n_passes - 1, 0))
        accepted = _n_right(text, at, len(proposal))
        pass_s = machine.pass_s(len(proposal) + 1)
        shown = min(shown, at + accepted)
        governor.observe(
            _round(
                replace(proposal, pass_s=draft_s * _jitter(rng, machine.noise, 0)),
                accepted,
                pass_s * _jitter(rng, machine.noise, machine.outliers),
            )
        )
        at += accepted + 1
        earned.seconds += draft_s + pass_s
        earned.n_rounds += 1
        if plan.n_max:
            earned.drafted_s += draft_s + pass_s
            earned.n_drafted_tokens += accepted + 1
            earned.n_drafting += 1
    return earned


def _draft(machine: Machine, text: Text, at: int, plan: Plan, n_behind: int, trims: bool) -> tuple[Proposal, float]:
    n_fed = n_behind if n_behind > N_MAX else 0
    fed_s = max(n_behind - 1, 0) * machine.feed_s
    peaks: list[float] = []
    n_rows = 0
    while True:
        n_rows += 1
        peak = text.certainty[at + len(peaks)]
        if not plan.draws(len(peaks), peak):
            break
        peaks.append(peak)
        if not plan.extends(len(peaks), math.nan if trims else peak):
            break
    n = len(peaks)
    probs = (math.nan,) * n if trims else tuple(peaks)
    q = (None,) * n if trims else (SAMPLED,) * n
    draft_s = n_rows * machine.step_s + fed_s
    return Proposal("model", (0,) * n, q, tuple(peaks), probs, None, draft_s, n_rows, n_fed, fed_s if n_fed else 0.0), draft_s


def _round(proposal: Proposal, accepted: int, pass_s: float) -> Round:
    kind = Kind.BONUS if accepted == len(proposal) else Kind.RECOVERED
    return Round(
        0,
        0,
        proposal,
        accepted,
        kind,
        (0,) * (accepted + 1),
        "",
        (),
        (),
        len(proposal) + 1,
        0,
        proposal.pass_s,
        pass_s,
        0.0,
        0.0,
    )


def _n_right(text: Text, at: int, n: int) -> int:
    return next((i for i in range(n) if not text.right[at + i]), n)


def _jitter(rng: random.Random, noise: float, outliers: float) -> float:
    return rng.lognormvariate(0, noise) * (5.0 if rng.random() < outliers else 1.0)
