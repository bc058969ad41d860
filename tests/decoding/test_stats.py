"""Counters of hand-made rounds give the numbers that one works out by hand, and none where nothing was counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, PromptPass, Proposal, Round
from specdec_cli.decoding.stats import RunStats, ratio
from tests.fakes.drafters import Oracle, point_masses
from tests.fakes.runs import job, plain, run
from tests.fakes.target import TableTarget, hashed

N_VOCAB = 8
TABLE = hashed(N_VOCAB, seed=1)


def made(n_drafted: int, n_accepted: int, at_s: float, *, drafter: str = "model", n_invalid: int = 0, n_cut: int = 0) -> Round:
    """A round that ends at at_s and emits n_accepted + 1 tokens, but for n_cut past the end of the run."""
    proposal: Proposal = replace(point_masses([1] * n_drafted), drafter=drafter)
    n_judged = min(n_accepted + 1, n_drafted)
    return Round(
        index=0,
        position=0,
        proposal=proposal,
        n_accepted=n_accepted,
        kind=Kind.BONUS if n_accepted == n_drafted else Kind.RECOVERED,
        emitted=(1,) * (n_accepted + 1 - n_cut),
        text="",
        p=(0.5,) * n_judged,
        q=(1.0,) * n_judged,
        width=1 + n_drafted - n_invalid,
        n_invalid=n_invalid,
        draft_s=0.25,
        pass_s=0.5,
        host_s=0.125,
        at_s=at_s,
    )


def rates(stats: RunStats) -> list[float | None]:
    return [stats.acceptance_rate, stats.mean_acceptance_length, stats.ttft_s, stats.prompt_tps, stats.generation_tps]


def test_a_run_of_nothing_has_no_rates() -> None:
    stats = RunStats(started_s=1.0)
    stats.add(Ended(FinishReason.LENGTH, ""))
    assert rates(stats) == [None] * 5
    assert stats.acceptance_by_position == []
    assert stats.finish is FinishReason.LENGTH


def test_one_token_has_a_time_to_it_but_no_rate() -> None:
    stats = RunStats(started_s=1.0)
    stats.add(made(0, 0, at_s=3.0))
    assert rates(stats) == [None, 1.0, 2.0, None, None]
    assert (stats.n_rounds, stats.n_emitted, stats.n_bonus, stats.n_recovered) == (1, 1, 0, 0)


def test_two_rounds_at_one_instant_have_no_rate() -> None:
    stats = RunStats(started_s=1.0)
    stats.add(made(0, 0, at_s=3.0))
    stats.add(made(0, 0, at_s=3.0))
    assert stats.generation_tps is None


def test_rounds_without_drafts_have_no_acceptance_rate() -> None:
    stats = RunStats(started_s=0.0)
    for i in range(5):
        stats.add(made(0, 0, at_s=1.0 + i))
    assert stats.acceptance_rate is None
    assert stats.mean_acceptance_length == 1.0
    assert stats.generation_tps == 1.0, "(n - 1) tokens between the first and the last"
    assert (stats.n_drafting_rounds, stats.n_bonus, stats.drafters) == (0, 0, {})


def test_the_numbers_of_hand_made_rounds() -> None:
    stats = RunStats(started_s=10.0)
    stats.add(PromptPass(n_done=40, n_total=90, n_reused=10, seconds=0.5))
    stats.add(PromptPass(n_done=90, n_total=90, n_reused=10, seconds=1.5))
    stats.add(made(3, 3, at_s=13.0))
    stats.add(made(3, 1, at_s=14.0))
    stats.add(made(2, 0, at_s=15.0, drafter="ngram", n_invalid=1))
    stats.add(made(0, 0, at_s=16.0))
    stats.add(made(2, 2, at_s=17.0, n_cut=2))
    assert (stats.n_prompt, stats.n_reused, stats.prompt_s, stats.prompt_tps) == (80, 10, 2.0, 40.0)
    assert (stats.n_rounds, stats.n_drafting_rounds, stats.n_emitted) == (5, 4, 4 + 2 + 1 + 1 + 1)
    assert (stats.n_drafted, stats.n_accepted, stats.n_invalid) == (10, 6, 1)
    assert (stats.n_recovered, stats.n_bonus) == (2, 2), "a plain round's token is no bonus"
    assert stats.acceptance_rate == 0.6
    assert stats.mean_acceptance_length == 1 + 6 / 5
    assert stats.acceptance_by_position == [3 / 4, 2 / 3, 1.0]
    assert stats.ttft_s == 3.0
    assert stats.generation_tps == pytest.approx((9 - 4) / 4)
    assert (stats.draft_s, stats.pass_s, stats.host_s) == (1.25, 2.5, 0.625)
    assert stats.drafters == {"model": 3, "ngram": 1}


def test_acceptance_at_a_position_counts_only_rounds_that_judged_it() -> None:
    stats = RunStats()
    stats.add(made(4, 0, at_s=1.0))
    stats.add(made(4, 2, at_s=2.0))
    assert (stats.n_verified_at, stats.n_accepted_at) == ({0: 2, 1: 1, 2: 1}, {0: 1, 1: 1})
    assert stats.acceptance_by_position == [0.5, 1.0, 0.0]


@pytest.mark.parametrize("k", [3, 6, 12])
def test_an_oracle_that_is_right_three_times_gives_four_tokens_a_pass_at_any_k(k: int) -> None:
    asked = job(n_predict=40)
    oracle = Oracle((*asked.prompt, *plain(job(n_predict=60), TABLE).tokens), N_VOCAB, n_right=3)
    stats = RunStats()
    for done in run(asked, TableTarget(TABLE), oracle, k).rounds:
        stats.add(done)
    assert (stats.mean_acceptance_length, stats.n_rounds, stats.n_accepted) == (4.0, 10, 30)
    assert stats.acceptance_by_position == ([1.0, 1.0, 1.0] if k == 3 else [1.0, 1.0, 1.0, 0.0])


def test_a_ratio_needs_a_whole() -> None:
    assert ratio(1, 4) == 0.25
    assert ratio(0, 0) is None
    assert ratio(3, 0.0) is None


@pytest.mark.parametrize(("n_accepted", "of_each"), [(0, (0, 0)), (1, (1, 0)), (2, (2, 0)), (4, (2, 2)), (5, (2, 3))])
def test_a_draft_of_two_is_a_round_of_the_first_and_each_has_its_own_tokens(n_accepted: int, of_each: tuple[int, int]) -> None:
    first, second = (replace(point_masses([1] * n), drafter=name) for n, name in ((2, "model"), (3, "ngram")))
    stats = RunStats(started_s=0.0)
    stats.add(replace(made(5, n_accepted, at_s=1.0), proposal=first.followed_by(second)))
    assert stats.drafters == {"model": 1}
    assert stats.n_drafted_by == {"model": 2, "ngram": 3}
    assert (stats.n_accepted_by["model"], stats.n_accepted_by["ngram"]) == of_each
