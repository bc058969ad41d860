"""The summary of a run and the comparison of several."""

from __future__ import annotations

import re

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, PromptPass
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.summary import Summary, render_summary, summary_json, summary_lines
from specdec_cli.ui.tables import Compared, comparison_table
from tests.ui.runs import a_round


def a_summary() -> Summary:
    stats = RunStats(started_s=100.0)
    stats.add(PromptPass(6, 12, 4, 0.25))
    stats.add(PromptPass(12, 12, 4, 0.25))
    stats.add(a_round(0, "a", drafted=(1, 2, 3), n_accepted=2, emitted=(1, 2, 9), kind=Kind.RECOVERED))
    stats.add(a_round(1, "b", drafted=(1, 2), n_accepted=2, emitted=(1, 2, 9)))
    stats.add(a_round(2, "c", emitted=(4,)))
    stats.add(Ended(FinishReason.STOP, ""))
    return Summary(stats, "ngram", 99)


def test_every_rate_stands_beside_its_counts() -> None:
    assert dict(summary_lines(a_summary())) == {
        "prompt t/s": "16.0 (8 tokens in 0.50 s, 4 more from the cache)",
        "TTFT": "1.00 s",
        "generation t/s": "8.0 (4 of 7 tokens in 0.50 s, after round 1)",
        "acceptance rate": "0.800 (4/5)",
        "mean acceptance length": "2.33 (1 + 4 accepted / 3 rounds)",
        "acceptance by position": "1: 1.000 (2/2)  2: 1.000 (2/2)  3: 0.000 (0/1)",
        "time": "draft 13%, verify 67%, host 20% of 0.75 s",
        "finish": "stop",
        "drafter": "ngram (proposed in 2 of 3 rounds)",
        "seed": "99",
    }


def test_what_was_not_counted_is_not_available() -> None:
    lines = dict(summary_lines(Summary(RunStats(), "none", 0)))
    assert lines["prompt t/s"].startswith("n/a (0 tokens")
    assert lines["TTFT"] == lines["time"] == lines["finish"] == lines["acceptance by position"] == "n/a"
    assert lines["acceptance rate"] == "n/a (0/0)"
    assert lines["drafter"] == "none"


def test_a_shadow_that_drafted_nothing_promises_nothing() -> None:
    shadow = {"tokens_per_s": 56.4, "plain_tokens_per_s": 30.7, "speed_up": 1.84, "accepted": 0.0, "drafted": 0.0}
    lines = dict(summary_lines(Summary(RunStats(), "none", 0, shadow=shadow | {"tokens_per_pass": 1.0})))
    assert lines["shadow"] == "drafting would have brought nothing: there was nothing to draft"


def test_drafted_ids_that_are_no_tokens_are_told() -> None:
    summary = a_summary()
    summary.stats.n_invalid = 2
    assert dict(summary_lines(summary))["acceptance rate"] == "0.800 (4/5), 2 of these are no tokens of the target"


def test_the_words_are_the_same_with_and_without_colour() -> None:
    coloured = render_summary(a_summary(), colour=True, columns=80)
    bare = render_summary(a_summary(), colour=False, columns=80)
    assert "\x1b" in coloured
    assert "\x1b" not in bare
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == bare.split()


def test_the_summary_is_aligned_and_fits_its_columns() -> None:
    lines = render_summary(a_summary(), colour=False, columns=60).split("\n")
    assert all(len(line) <= 60 for line in lines)
    values = {line.index(value) for line, value in ((lines[0], "16.0"), (lines[-1], "99"), (lines[-2], "ngram"))}
    assert len(values) == 1


def test_the_shares_of_the_time_sum_to_one() -> None:
    found = summary_json(a_summary().stats)
    shares = [found[key] for key in ("draft_share", "verify_share", "host_share")]
    assert all(isinstance(share, float) for share in shares)
    assert abs(sum(share for share in shares if isinstance(share, float)) - 1) < 1e-9
    assert found["rounds_by_drafter"] == {"model": 2}
    assert found["tokens_by_drafter"] == {"model": {"drafted": found["drafted"], "accepted": found["accepted"]}}


ROWS = [
    Compared("plain", 13.61, 1.0, 0, 0, 128, None),
    Compared("speculative, draft model, K = 16", 112.345, 1.72, 1084, 1118, 44, True),
    Compared("ngram", None, None, 0, 0, 0, False),
]


def test_a_comparison_fits_eighty_columns_with_counts_beside_rates() -> None:
    lines = comparison_table(ROWS).split("\n")
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) == 5  # the long label takes two
    assert lines[1].split() == ["plain", "13.6", "1.00", "n/a", "(0/0)", "1.00", "(128)", "n/a"]
    assert "0.970 (1084/1118)" in lines[2]
    assert "25.64 (44)" in lines[2]
    assert lines[-1].split()[-1] == "NO"
    assert "\x1b" not in "".join(lines)


def test_a_comparison_in_colour_says_the_same() -> None:
    coloured = comparison_table(ROWS, colour=True)
    assert "\x1b" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == comparison_table(ROWS).split()
