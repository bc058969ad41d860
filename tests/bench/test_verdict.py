"""The verdict says what the runs say, in a sentence, and each threshold that was given is held against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from specdec_cli.bench.results import Cause, Difference, Results
from specdec_cli.bench.verdict import Thresholds, judge
from tests.bench import made

NONE = Thresholds()
FAST, SAME, SLOW = ([10, 10, 10], [20, 21, 19]), ([10, 10, 10], [10, 10, 10]), ([10, 10, 10], [8, 8, 8])


@pytest.mark.parametrize(
    ("rates", "sentence", "worth_it"),
    [
        (
            {"code": FAST, "prose": SAME},
            "Worth it here: ngram is 1.41x (1.38 to 1.45) as fast as plain decoding over 2 tasks;"
            " code gains, prose does not gain.",
            True,
        ),
        ({"code": FAST}, "Worth it here: ngram is 2.00x (1.90 to 2.10) as fast as plain decoding on one task.", True),
        (
            {"a": SLOW, "b": SLOW, "c": SAME},
            "Not worth it here: ngram is 0.86x (0.86 to 0.86) as fast as plain decoding over 3 tasks;"
            " c does not gain, a and b get slower.",
            False,
        ),
        (
            {"a": SAME, "b": SAME},
            "No difference that these runs can tell: ngram is 1.00x (1.00 to 1.00) as fast as plain decoding over 2 tasks.",
            None,
        ),
        ({"a": ([], [])}, "Nothing was measured that could be compared.", None),
    ],
)
def test_the_sentence(
    rates: Mapping[str, tuple[Sequence[float], Sequence[float]]], sentence: str, worth_it: bool | None
) -> None:
    found = judge(made.results(rates), NONE)
    assert (found.sentence, found.worth_it) == (sentence, worth_it)
    assert found.passed


def test_plain_decoding_alone_has_nothing_to_say() -> None:
    assert judge(replace(made.results({"a": FAST}), variants=("plain",)), NONE).sentence == "Only plain decoding was measured."


def test_other_variants_and_differences_are_told() -> None:
    found = made.results({"a": FAST}, differences=[Difference("a", "ngram", 3, Cause.ROUNDING)])
    beside = tuple(replace(run, variant="model") for run in found.runs if run.variant == "ngram")
    both = replace(found, variants=("plain", "ngram", "model"), runs=(*found.runs, *beside))
    sentence = judge(both, NONE).sentence
    assert " model: 2.00x (1.90 to 2.10). " in sentence
    assert "Texts of a differ by rounding only" in sentence


def _difference(cause: Cause) -> Results:
    return made.results({"a": FAST}, differences=[Difference("a", "ngram", 7, cause)])


@pytest.mark.parametrize(
    ("found", "thresholds", "passed", "measured"),
    [
        (made.results({"a": FAST}), Thresholds(speedup=2.0), True, "2.00x (1.90 to 2.10)"),
        (made.results({"a": FAST}), Thresholds(speedup=2.01), False, "2.00x (1.90 to 2.10)"),
        (made.results({"a": ([], [])}), Thresholds(speedup=0.1), False, "nothing"),
        (made.results({"a": FAST}), Thresholds(memory=200_000_000), True, "200 MB"),
        (made.results({"a": FAST}), Thresholds(memory=199_000_000), False, "200 MB"),
        (replace(made.results({"a": FAST}), planned_bytes={}), Thresholds(memory=1), False, "nothing"),
        (made.results({"a": FAST}), Thresholds(equal=True), True, "every text the same"),
        (_difference(Cause.ROUNDING), Thresholds(equal=True), True, "a differs at token 7 (rounding)"),
        (_difference(Cause.ROUNDING), Thresholds(equal=True, exact=True), False, "a differs at token 7 (rounding)"),
        (_difference(Cause.FAULT), Thresholds(equal=True), False, "a differs at token 7 (fault)"),
        (_difference(Cause.SAMPLING), Thresholds(equal=True), False, "a differs at token 7 (sampling)"),
    ],
)
def test_each_threshold(found: Results, thresholds: Thresholds, passed: bool, measured: str) -> None:
    verdict = judge(found, thresholds)
    assert [check.measured for check in verdict.checks] == [measured]
    assert verdict.passed is passed


def test_a_text_that_differs_and_was_not_looked_into_is_not_equal() -> None:
    found = made.results({"a": FAST})
    odd = replace(found, runs=(*found.runs[:-1], replace(found.runs[-1], tokens_sha256="other")))
    assert not judge(odd, Thresholds(equal=True)).passed


def test_what_had_no_draft_accepted_has_not_gained() -> None:
    found = made.results({"a": FAST})
    idle = replace(found, runs=tuple(replace(run, accepted=0) for run in found.runs))
    verdict = judge(idle, Thresholds())
    assert verdict.worth_it is None
    assert verdict.sentence.startswith("No gain: no draft of ngram was accepted in these runs")
