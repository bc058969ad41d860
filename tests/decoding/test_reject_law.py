"""Under reject the first two tokens follow p exactly: every outcome of all chances is enumerated, nothing is sampled.

The real loop and the real reject() run; only chance is replaced (tests.fakes.branches). Drafters that drop a drawn token for
what became known after the draw are planted, and the enumeration has to find them biased.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pytest

from specdec_cli.decoding import loop, verification
from specdec_cli.decoding.contracts import Constraint, Drafter, Law, Round, Sampler, SamplingParams
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.loop import generate
from specdec_cli.decoding.sampling import processed
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters import model as model_drafter
from specdec_cli.drafters.model import ModelDrafter
from tests.fakes.branches import BranchingNoise, BranchingWalk, Path, every_path
from tests.fakes.drafters import Drawing, Oracle, Planting, Scattered
from tests.fakes.runs import PURE, ScriptedGovernor, job
from tests.fakes.target import TableTarget, hashed

PROMPT = (0,)
TARGET, DRAFT = hashed(3, seed=5, scale=1.5), hashed(3, seed=6, scale=1.5)
TOP_TWO = SamplingParams(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0)

Q = Callable[[tuple[int, ...]], Law]
Pairs = dict[tuple[int, int], float]


def p_of(prefix: tuple[int, ...], params: SamplingParams = PURE) -> Law:
    return processed(TARGET(prefix), (), params)


def law(weights: Mapping[int, float]) -> Law:
    total = sum(weights.values())
    return Law(np.array(list(weights)), np.array(list(weights.values())) / total)


def spread(prefix: tuple[int, ...]) -> Law:
    return law({0: 0.2, 1: 0.3, 2: 0.5} if sum(prefix) % 2 else {0: 0.6, 1: 0.2, 2: 0.2})


def blind(prefix: tuple[int, ...]) -> Law:
    """Gives one token no mass, another one each time."""
    return law({(len(prefix) + prefix[-1]) % 3: 0.8, (len(prefix) + prefix[-1] + 1) % 3: 0.2})


def foreign(prefix: tuple[int, ...]) -> Law:
    """Half of its mass is on ids that are no tokens."""
    return law({0: 0.1, 1: 0.3, 2: 0.1, 3: 0.2, -1: 0.2, 99: 0.1})


def near(prefix: tuple[int, ...]) -> Law:
    """p up to rounding."""
    p = p_of(prefix)
    return Law(p.ids, p.probs * (1 + np.array([1, -1, 1]) * 2**-52))


def q_of_draft(prefix: tuple[int, ...]) -> Law:
    return processed(DRAFT(prefix), (), PURE)


def breakpoints(q: Q, params: SamplingParams) -> dict[int, list[float]]:
    """For each position, the probabilities of acceptance that any prefix and any token give there."""
    found: dict[int, list[float]] = {}
    for n in range(4):
        ratios = []
        for tokens in product(range(3), repeat=n):
            p, drafted = p_of((*PROMPT, *tokens), params), q((*PROMPT, *tokens))
            ratios += [p.prob(x) / drafted.prob(x) for x in range(3) if drafted.prob(x) > 0]
        kept: list[float] = []
        for ratio in sorted(ratios):
            if not kept or ratio - kept[-1] > 1e-12:
                kept.append(ratio)
        found[len(PROMPT) + n] = kept
    return found


def first_two(
    make: Callable[[], Drafter],
    q: Q,
    *,
    lengths: Sequence[int] = (2, 1),
    params: SamplingParams = PURE,
    p_min: float = 0.0,
    n_min: int = 0,
) -> Pairs:
    """The exact law of the first two tokens of a run."""
    marks = breakpoints(q, params)
    now: list[Path] = []

    def branching(rule: Rule, asked: SamplingParams, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
        sampler = Sampler(asked, BranchingNoise(now[-1], marks), constraint)
        return sampler, sampler

    def once(path: Path) -> tuple[int, int]:
        now[:] = [path]
        governor = ScriptedGovernor(lengths, n_min=n_min, p_min=p_min)
        generation = Generation(job(PROMPT, -1, params, Rule.REJECT))
        return two_of(generate(generation, TableTarget(TARGET, max_pass=8), make(), governor))

    pairs: Pairs = defaultdict(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "samplers", branching)
        patch.setattr(verification, "Walk", BranchingWalk)
        patch.setattr(model_drafter, "Walk", BranchingWalk)
        for weight, pair in every_path(once):
            pairs[pair] += weight
    assert sum(pairs.values()) == pytest.approx(1, abs=1e-12)
    return pairs


def two_of(events: Iterator[loop.Event]) -> tuple[int, int]:
    tokens: list[int] = []
    for event in events:
        if isinstance(event, Round):
            tokens += event.emitted
        if len(tokens) >= 2:
            return tokens[0], tokens[1]
    raise AssertionError("a run of fewer than two tokens")


def bias(pairs: Pairs, params: SamplingParams = PURE) -> float:
    """The largest distance from p(t1) p(t2 | t1)."""
    return max(
        abs(pairs.get((a, b), 0.0) - p_of(PROMPT, params).prob(a) * p_of((*PROMPT, a), params).prob(b))
        for a, b in product(range(3), repeat=2)
    )


@pytest.mark.parametrize("q", [spread, blind, foreign, near, p_of, q_of_draft], ids=lambda q: q.__name__)
@pytest.mark.parametrize("params", [PURE, TOP_TWO], ids=["all of p", "p with holes"])
def test_a_sampled_draft_leaves_p_as_it_is(q: Q, params: SamplingParams) -> None:
    assert bias(first_two(lambda: Drawing(q), q, params=params), params) < 1e-12


@pytest.mark.parametrize("lengths", [(0,), (1,), (1, 1), (2, 2), (3,), (0, 2)], ids=str)
def test_no_length_of_draft_biases(lengths: Sequence[int]) -> None:
    assert bias(first_two(lambda: Drawing(blind), blind, lengths=lengths)) < 1e-12


def certain(prefix: tuple[int, ...]) -> Law:
    """What reject() takes a point mass for; only the breakpoints need it, so every token gets all of it."""
    return Law(np.arange(3), np.ones(3))


@pytest.mark.parametrize("run", [(0, 1, 1), (0, 2, 0), (0, 0, 2)], ids=str)
@pytest.mark.parametrize("params", [PURE, TOP_TWO], ids=["all of p", "p with holes"])
def test_a_deterministic_draft_leaves_p_as_it_is(run: tuple[int, ...], params: SamplingParams) -> None:
    assert bias(first_two(lambda: Oracle(run, 3), certain, params=params), params) < 1e-12


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("planted", [-1, 3, 2**40])
def test_ids_that_are_no_tokens_leave_p_as_it_is(planted: int, at: int) -> None:
    assert bias(first_two(lambda: Planting((0, 1, 1), (planted,), at), certain)) < 1e-12


def test_point_masses_drawn_by_a_chance_of_their_own_leave_p_as_it_is() -> None:
    for seed in range(5):
        assert bias(first_two(lambda seed=seed: Scattered(3, seed), certain)) < 1e-12  # type: ignore[misc]


# What a drafter may look at: everything known before the draw.


def flat(law: Law) -> bool:
    return float(law.probs.max()) < 0.55


def test_a_stop_before_the_draw_by_the_peak_of_its_q_does_not_bias() -> None:
    stopped = first_two(lambda: Drawing(spread, stop=lambda tokens, laws, law: flat(law)), spread)
    assert bias(stopped) < 1e-12


def test_a_stop_by_what_was_drawn_earlier_does_not_bias() -> None:
    def unlikely_so_far(tokens: Sequence[int], laws: Sequence[Law], law: Law) -> bool:
        return any(q.prob(token) < 0.4 for q, token in zip(laws, tokens, strict=True))

    assert bias(first_two(lambda: Drawing(spread, stop=unlikely_so_far), spread)) < 1e-12


@pytest.mark.parametrize(("p_min", "n_min"), [(0.0, 0), (0.45, 0), (0.6, 0), (0.6, 1), (0.99, 0), (0.99, 2)])
def test_the_model_drafter_does_not_bias_whatever_its_limits(p_min: float, n_min: int) -> None:
    def make() -> Drafter:
        return ModelDrafter(TableTarget(DRAFT), 3, np.array([], dtype=np.int64), frozenset())

    assert bias(first_two(make, q_of_draft, p_min=p_min, n_min=n_min)) < 1e-12


def test_the_model_drafter_does_not_bias_when_ids_are_masked() -> None:
    def masked(prefix: tuple[int, ...]) -> Law:
        row = DRAFT(prefix).copy()
        row[1] = -np.inf
        return processed(row, (), PURE)

    assert bias(first_two(lambda: ModelDrafter(TableTarget(DRAFT), 3, np.array([1]), frozenset()), masked)) < 1e-12


# What it may not: planted faults, which have to show.


def own_probability(tokens: Sequence[int], laws: Sequence[Law]) -> int:
    return next((i for i, (token, q) in enumerate(zip(tokens, laws, strict=True)) if q.prob(token) < 0.4), len(tokens))


def later_probability(tokens: Sequence[int], laws: Sequence[Law]) -> int:
    return 0 if len(tokens) == 2 and laws[1].prob(tokens[1]) < 0.4 else len(tokens)


def later_peak(tokens: Sequence[int], laws: Sequence[Law]) -> int:
    return 0 if len(tokens) == 2 and flat(laws[1]) else len(tokens)


@pytest.mark.parametrize("kept", [own_probability, later_probability, later_peak], ids=lambda kept: kept.__name__)
def test_dropping_a_drawn_token_biases(kept: Callable[[Sequence[int], Sequence[Law]], int]) -> None:
    assert bias(first_two(lambda: Drawing(spread, kept=kept), spread)) > 0.01


def test_dropping_a_draft_for_being_short_biases() -> None:
    def make() -> Drafter:
        return Drawing(
            spread,
            stop=lambda tokens, laws, law: bool(tokens) and flat(law),
            kept=lambda tokens, laws: len(tokens) if len(tokens) >= 2 else 0,
        )

    assert bias(first_two(make, spread)) > 0.01


def test_dropping_one_of_two_tokens_whenever_it_is_drawn_gives_the_other_its_square() -> None:
    """p = q = (a, 1 - a), the second token dropped: the first comes with a + (1 - a) a; 0.91 for a = 0.7."""
    pairs = first_two(
        lambda: Drawing(lambda prefix: p_of(prefix, TOP_TWO), kept=lambda tokens, laws: int(tokens[0] == laws[0].ids[0])),
        lambda prefix: p_of(prefix, TOP_TWO),
        lengths=(1,),
        params=TOP_TWO,
    )
    p = p_of(PROMPT, TOP_TWO)
    a = float(p.probs[0])
    assert marginal(pairs, int(p.ids[0])) == pytest.approx(a + (1 - a) * a, abs=1e-12)


def marginal(pairs: Pairs, first: int) -> float:
    return sum(weight for (a, _), weight in pairs.items() if a == first)


def not_subtracted(p: Law, q: Law | None, x: int) -> Law:
    return p


def draft_refused_alone(p: Law, q: Law | None, x: int) -> Law:
    """The residual of a point mass, though q was none."""
    return TRUE_RESIDUAL(p, None, x)


TRUE_RESIDUAL = verification.residual


@pytest.mark.parametrize("planted", [not_subtracted, draft_refused_alone], ids=lambda planted: planted.__name__)
def test_a_wrong_residual_biases(planted: Callable[[Law, Law | None, int], Law], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "residual", planted)
    assert bias(first_two(lambda: Drawing(spread), spread)) > 0.01
