"""The sentence that demo ends with says no more than the figures do."""

from __future__ import annotations

from specdec_cli.cli.demonstration import verdict


def test_what_was_faster_in_every_turn_paid() -> None:
    said = verdict({"ngram": [1.2, 1.3, 1.25], "model": [0.6, 0.7, 0.65]})
    assert "ngram paid; model made it slower" in said
    assert "1.25x (1.20 to 1.30)" in said


def test_one_slow_turn_leaves_it_open() -> None:
    said = verdict({"ngram": [1.9, 2.4, 0.98]})
    assert "paid" not in said
    assert "ngram made no difference that stands out of the noise" in said


def test_where_nothing_paid_it_says_why() -> None:
    assert "larger targets gain more" in verdict({"model": [0.6, 0.7, 0.65]})


def test_without_rates_there_is_nothing_to_compare() -> None:
    assert verdict({"ngram": []}) == "Too few tokens to compare speeds."
