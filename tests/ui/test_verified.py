"""What verify found, drawn for terminals of several widths."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from specdec_cli.proof.report import Check, Difference, Fault, Position, Report, SamePrefix, State, Statistic
from specdec_cli.ui.output import STYLING
from specdec_cli.ui.verified import render_verified

GREEDY = Check(
    "greedy",
    State.SOUND,
    "96 tokens of 2 runs are the best of the rows that decided them.",
    differences=(Difference("story", "4", 9, "rounding", 0.012, 0.25),),
)
SAMPLING = Check(
    "sampling",
    State.FAULT,
    "It does not hold under reject that bonus tokens are draws from p: off by 40 % in 200 draws.",
    faults=(Fault("a token was emitted that the target's own law forbids", "story\x1b[2J, reject, seed 3", 7),),
    tests=(
        Statistic("bonus tokens are draws from p", "reject", 200, 0.4, 1e-20, 0.2, alarm=True),
        Statistic("drafts are accepted as often as p and q say", "match", 0, 0.0, 1.0, 1.0, alarm=False),
    ),
    positions=(Position("reject", 0, 120, 0.74, 0.7), Position("reject", 1, 80, 0.6, 0.65)),
    prefixes=(SamePrefix("reject", "story + 9", 120, 14.2, 9, 0.11, 0.08, alarm=False),),
)
REPORT = Report("", "build", {}, "model", (0.8, 1.0), 3, 60, 61.2, 1e-4, complete=True, checks=(GREEDY, SAMPLING))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_it_fits_the_columns(columns: int) -> None:
    text = render_verified(REPORT, colour=False, columns=columns)
    assert max(map(cell_len, text.splitlines())) <= columns
    styled = STYLING.sub("", render_verified(REPORT, colour=True, columns=columns))
    assert [line.rstrip() for line in styled.splitlines()] == text.splitlines()


def test_it_says_what_was_seen_and_what_that_can_see() -> None:
    text = render_verified(REPORT, colour=False, columns=200)
    assert "story, drafts 4: differs from token 10 on: rounding (gap 0.012, noise 0.25)" in text
    assert "7 times" in text
    assert "reject 0.74 (0.70) 0.60 (0.65)" in text
    assert "chi-square 14.2, 9 degrees of freedom" in text
    assert "drafts are accepted" not in text  # nothing was drawn for it
    assert "in 0.0001 of cases at the most" in text
    assert text.splitlines()[-1] == "FAULT: with model the output is not the target's own (sampling)."


def test_too_few_runs_for_a_test_are_told() -> None:
    few = replace(SAMPLING, prefixes=(replace(SAMPLING.prefixes[0], n=9, dof=0, chi_square=0.0),))
    text = render_verified(replace(REPORT, checks=(GREEDY, few)), colour=False, columns=200)
    assert "9 runs from story + 9 under reject: too few to tell one law from another" in text
    assert "chi-square" not in text
    one = replace(SAMPLING, prefixes=(replace(SAMPLING.prefixes[0], n=1, dof=0),))
    assert "  1 run from story" in render_verified(replace(REPORT, checks=(one,)), colour=False, columns=200)


def test_nothing_steers_the_terminal() -> None:
    assert "\x1b" not in render_verified(REPORT, colour=False, columns=80)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (replace(REPORT, checks=(GREEDY,)), "Sound: with model"),
        (replace(REPORT, checks=(GREEDY,), complete=False), "Interrupted"),
        (replace(REPORT, checks=(replace(GREEDY, state=State.UNSEEN),)), "too little to see of: greedy"),
    ],
)
def test_the_verdict_claims_no_more_than_was_seen(report: Report, words: str) -> None:
    assert words in render_verified(report, colour=False, columns=200).splitlines()[-1]
