"""Whole runs under reject, over many seeds: three successive tokens follow p, and planted faults are found out.

The seeds are fixed, so these tests always do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from specdec_cli.decoding import loop, verification
from specdec_cli.decoding.contracts import Constraint, Drafter, Law, Noise, Sampler, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import processed
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from tests.fakes.runs import job, run
from tests.fakes.target import Table, TableTarget, blended, hashed

N_VOCAB = 6
PROMPT = (1, 2, 1)
N_SEEDS = 700
TARGET = hashed(N_VOCAB, seed=3, scale=1.5)
OTHER = hashed(N_VOCAB, seed=4, scale=1.5)
TRUNCATED = SamplingParams(temperature=0.9, top_k=5, top_p=0.97, min_p=0.02, presence_penalty=0.4)

Triple = tuple[int, int, int]


def model_drafter() -> Drafter:
    return ModelDrafter(TableTarget(blended(TARGET, OTHER, 0.5)), N_VOCAB, np.array([], dtype=np.int64), frozenset())


def seeded(seed: int) -> SamplingParams:
    return replace(TRUNCATED, seed=seed)


def triples(make: Callable[[], Drafter | None], k: int, rule: Rule = Rule.REJECT, table: Table = TARGET) -> Counter[Triple]:
    """The first three tokens of a run, over all seeds. Runs are longer, so that the budget does not shorten the drafts."""
    counted: Counter[Triple] = Counter()
    drafter = make()
    target = TableTarget(table)
    for seed in range(N_SEEDS):
        target.keep(0)
        a, b, c = run(job(PROMPT, 3 + k, seeded(seed), rule), target, drafter, k).tokens[:3]
        counted[a, b, c] += 1
    return counted


@cache
def exact(table: Table) -> dict[Triple, float]:
    """The law of the first three tokens, from the table."""
    whole: dict[Triple, float] = {}
    for a, b, c in product(range(table(PROMPT).size), repeat=3):
        prob = 1.0
        prefix: tuple[int, ...] = PROMPT
        for token in (a, b, c):
            prob *= processed(table(prefix), prefix, TRUNCATED).prob(token)
            prefix = (*prefix, token)
        whole[a, b, c] = prob
    return whole


def p_value(counted: Counter[Triple], table: Table = TARGET) -> float:
    """The smallest of the chi-square p-values for the two pairs of successive tokens, times two. Zero for the impossible."""
    law = exact(table)
    if any(law[triple] == 0 for triple in counted):
        return 0.0
    values = []
    for i, j in pairwise(range(3)):
        expected: Counter[tuple[int, int]] = Counter()
        observed: Counter[tuple[int, int]] = Counter()
        for triple, prob in law.items():
            expected[triple[i], triple[j]] += prob * N_SEEDS  # type: ignore[assignment]
        for triple, n in counted.items():
            observed[triple[i], triple[j]] += n
        large = [cell for cell, n in expected.items() if n >= 5]
        n_expected = [expected[cell] for cell in large]
        n_observed = [observed[cell] for cell in large]
        if N_SEEDS - sum(n_expected) >= 1:
            n_expected.append(N_SEEDS - sum(n_expected))
            n_observed.append(N_SEEDS - sum(n_observed))
        values.append(float(stats.chisquare(n_observed, np.array(n_expected) * sum(n_observed) / sum(n_expected)).pvalue))
    return min(1.0, 2 * min(values))


def test_a_model_like_draft_leaves_p_as_it_is() -> None:
    assert p_value(triples(model_drafter, 3)) > 0.01


def test_an_ngram_draft_leaves_p_as_it_is() -> None:
    assert p_value(triples(NgramDrafter, 3)) > 0.01


def test_match_leaves_p_as_it_is() -> None:
    assert p_value(triples(model_drafter, 3, Rule.MATCH)) > 0.01


class AcceptAll:
    """Noise with which whatever p allows is accepted."""

    def __init__(self, inner: Noise) -> None:
        self.gumbel = inner.gumbel

    def uniform(self, position: int) -> float:
        return 0.0


def shared_noise(rule: Rule, params: SamplingParams, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
    sampler = Sampler(params, noise_for(params.seed, n_round), constraint)
    return sampler, sampler


def accept_all(rule: Rule, params: SamplingParams, constraint: Constraint | None, n_round: int) -> tuple[Sampler, Sampler]:
    for_drafter, for_verifier = samplers(rule, params, constraint, n_round)
    return for_drafter, Sampler(params, AcceptAll(for_verifier.noise), constraint)


def same_everywhere(*probs: float) -> Table:
    row = np.log(np.array(probs)).astype(np.float32)
    return lambda prefix: row


# Two residual tokens of equal mass and unequal q show best what the draft's noise tells of the residual's.
UNEQUAL, UNEQUAL_DRAFT = same_everywhere(0.05, 0.65, 0.3), same_everywhere(0.66, 0.32, 0.02)


def unequal_drafter() -> Drafter:
    return ModelDrafter(TableTarget(UNEQUAL_DRAFT), 3, np.array([], dtype=np.int64), frozenset())


def test_a_draft_unlike_its_target_leaves_p_as_it_is() -> None:
    assert p_value(triples(unequal_drafter, 2, table=UNEQUAL), UNEQUAL) > 0.01


@pytest.mark.parametrize("planted", [shared_noise, accept_all], ids=lambda planted: planted.__name__)
def test_wrong_noise_is_found_out(
    planted: Callable[[Rule, SamplingParams, Constraint | None, int], tuple[Sampler, Sampler]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "samplers", planted)
    assert p_value(triples(unequal_drafter, 2, table=UNEQUAL), UNEQUAL) < 1e-4


def test_a_residual_that_is_not_subtracted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_subtracted(p: Law, q: Law | None, x: int) -> Law:
        return p

    monkeypatch.setattr(verification, "residual", not_subtracted)
    assert p_value(triples(model_drafter, 3)) < 1e-4


def test_a_wrong_target_is_found_out() -> None:
    """The test's own strength: a target with a slightly different table, plainly decoded."""
    other = TableTarget(blended(TARGET, OTHER, 0.25))
    counted: Counter[Triple] = Counter()
    for seed in range(N_SEEDS):
        other.keep(0)
        a, b, c = run(job(PROMPT, 3, seeded(seed)), other).tokens
        counted[a, b, c] += 1
    assert p_value(counted) < 1e-4
