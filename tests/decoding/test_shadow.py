"""A shadow counts what the speculative run would have done, without changing the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Round
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Sequence, generate
from specdec_cli.decoding.shadow import Shadow
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.drafters.ngram import NgramDrafter
from tests.fakes.drafters import Oracle
from tests.fakes.runs import GREEDY, SEEDED, job, plain, run
from tests.fakes.target import TableTarget, hashed

N_VOCAB = 5
TABLE = hashed(N_VOCAB, seed=1, order=2)


def shadowed(asked: object, shadow: Shadow) -> list[Round]:
    """A plain run with a shadow behind it."""
    sequence = Sequence(asked)  # type: ignore[arg-type]
    rounds = []
    for event in generate(sequence, TableTarget(TABLE), None, FixedGovernor(0)):
        if isinstance(event, Round):
            rounds.append(event)
            sampler, _ = samplers(sequence.job.rule, sequence.job.params, None, sequence.n_rounds)
            shadow.follow(sequence.context, sampler, sequence.budget)
    return rounds


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@settings(deadline=None, max_examples=40)
@given(k=st.integers(1, 6), n=st.integers(1, 40), wrong=st.frozensets(st.integers(3, 43), max_size=12))
def test_it_counts_what_a_speculative_run_does(params: object, k: int, n: int, wrong: frozenset[int]) -> None:
    asked = job(n_predict=n, params=params)  # type: ignore[arg-type]
    said = plain(asked, TABLE).tokens

    def oracle() -> Oracle:
        return Oracle((*asked.prompt, *said), N_VOCAB, wrong_at=wrong)

    real = run(asked, TableTarget(TABLE), oracle(), k).rounds
    shadow = Shadow(oracle(), FixedGovernor(k), lambda n: float(n), k)
    rounds = shadowed(asked, shadow)
    assert tuple(token for done in rounds for token in done.emitted) == said
    # The first plain token is the shadow's first look at the text, so it starts one token later than a run would.
    assert shadow.stats.n_accepted <= sum(done.n_accepted for done in real)
    assert shadow.stats.n_emitted <= n
    if not wrong:
        assert shadow.stats.n_accepted == shadow.stats.n_drafted


def test_a_wrong_draft_is_counted_where_the_text_parts_from_it() -> None:
    asked = job(n_predict=20, rule=Rule.MATCH)
    said = plain(asked, TABLE).tokens
    whole = (*asked.prompt, *said)
    shadow = Shadow(Oracle(whole, N_VOCAB, wrong_at=frozenset({6})), FixedGovernor(3), lambda n: float(n), 3)
    shadowed(asked, shadow)
    # From position 4 on: token 4 and 5 right, 6 wrong; then 3 right and a bonus in each round.
    n = shadow.stats.n_rounds
    assert shadow.stats.acceptance_by_position == [1, 1, (n - 1) / n]
    assert (shadow.stats.n_recovered, shadow.stats.n_accepted) == (1, 3 * n - 1)
    assert shadow.seconds == 4 * shadow.stats.n_rounds
    assert shadow.plain_s == shadow.stats.n_emitted


def test_rounds_without_a_draft_cost_a_plain_pass() -> None:
    asked = job(n_predict=12)
    shadow = Shadow(NgramDrafter(), FixedGovernor(0), lambda n: float(n), 4)
    rounds = shadowed(asked, shadow)
    assert shadow.stats.n_drafted == 0
    assert shadow.seconds == shadow.plain_s == shadow.stats.n_emitted == len(rounds) - 1
