"""The small behaviour that the shared records have."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.decoding.contracts import Law, Proposal, SamplingParams


def test_a_cut_proposal_keeps_all_its_lists_in_step() -> None:
    laws = tuple(Law(np.array([i]), np.ones(1)) for i in range(3))
    whole = Proposal("fake", (4, 5, 6), laws, (0.9, 0.8, 0.7), (0.3, 0.2, 0.1), pass_s=2.0)
    cut = whole.cut(2)
    assert cut == Proposal("fake", (4, 5), laws[:2], (0.9, 0.8), (0.3, 0.2), pass_s=2.0)
    assert whole.cut(0).tokens == ()
    assert whole.cut(3) is whole.cut(9) is whole


def test_the_probability_of_a_token_outside_a_law_is_zero() -> None:
    law = Law(np.array([7, 2]), np.array([0.75, 0.25]))
    assert [law.prob(token) for token in (2, 7, 3, -1)] == [0.25, 0.75, 0.0, 0.0]


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (-1.0, True), (1e-9, False), (0.8, False)])
def test_a_temperature_of_zero_or_less_is_greedy(temperature: float, greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).greedy is greedy


@pytest.mark.parametrize(
    ("params", "penalised"),
    [
        (SamplingParams(), False),
        (SamplingParams(repeat_penalty=1.1), True),
        (SamplingParams(presence_penalty=-0.1), True),
        (SamplingParams(frequency_penalty=0.1, repeat_last_n=-1), True),
        (SamplingParams(repeat_penalty=1.1, frequency_penalty=0.1, repeat_last_n=0), False),
    ],
)
def test_penalties_need_a_strength_and_a_window(params: SamplingParams, penalised: bool) -> None:
    assert params.penalised is penalised
