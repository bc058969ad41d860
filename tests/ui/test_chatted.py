"""What a talk came to, in words."""

from __future__ import annotations

import pytest

from specdec_cli.chat.totals import Totals
from specdec_cli.decoding.contracts import PromptPass
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.chatted import KeptSession, expected, in_rows, marked_answer, progress_bar, sessions_table, totals_table
from tests.ui.runs import a_round, a_run


def test_parts_are_broken_between_them() -> None:
    parts = ["aaa", "bbb", "cc"]
    assert in_rows(parts, 0) == ["aaa \u00b7 bbb \u00b7 cc"]
    assert in_rows(parts, 9) == ["aaa \u00b7 bbb", "cc"]
    assert in_rows(parts, 2) == parts


def test_a_bar_counts_what_is_passed_and_not_what_was_reused() -> None:
    assert progress_bar(PromptPass(150, 200, 100, 0.1), "#", 10) == "[#####.....] 50 of 100 tokens"
    assert progress_bar(PromptPass(100, 100, 100, 0.1), "#", 4) == "[....] 0 of 0 tokens"


@pytest.mark.parametrize(
    ("n", "seconds", "words"),
    [
        (1, None, "1 token to pass"),
        (1200, 0.2, "1,200 tokens to pass, about 1 s"),
        (9000, 300.0, "9,000 tokens to pass, about 5 min"),
    ],
)
def test_what_is_expected(n: int, seconds: float | None, words: str) -> None:
    assert expected(n, seconds) == words


def test_totals_tell_drafters_and_draft_lengths() -> None:
    totals = Totals()
    assert totals_table(totals, "none", None, colour=False, columns=80) == "No turn is finished yet."
    stats = RunStats(started_s=100.0)
    for done in (a_round(0, "a"), a_round(1, "b", drafted=(1, 2, 3), n_accepted=2, emitted=(1, 2, 9))):
        stats.add(done)
        totals.add_round(done)
    totals.add_turn(stats, 40, 30, 10, 4)
    text = totals_table(totals, "model", 3, colour=False, columns=80)
    for part in (
        "10 tokens passed", "30 reused", "4 tokens in", "model, always 3 tokens",
        "acceptance 0.667 (2/3), proposed in 1 round", "0: 1  3: 1",
    ):  # fmt: skip
        assert part in text, text


def test_an_answer_with_its_marks() -> None:
    events = a_run(["a", "b"])
    text = marked_answer(events, lambda _token: b"?", colour=False)
    assert text.startswith("[+ ] accepted")
    assert text.endswith("\n\n??")


def test_sessions_are_listed_with_those_that_cannot_be_read() -> None:
    found = [
        KeptSession("work", 3, "2026-11-30T02:41:59+00:00", "m.gguf", "First\nquestion\x1b"),
        KeptSession("bad", problem="It is broken."),
    ]
    lines = sessions_table(found, "/x", colour=False, columns=100).split("\n")
    assert lines[1].split() == ["work", "3", "2026-11-30", "02:41", "m.gguf", "First", "question\\x1b"]
    assert "It is broken." in lines[2]
    assert "--session NAME begins one" in sessions_table([], "/x", colour=False, columns=100)
