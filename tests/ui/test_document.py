"""The JSON document of a run."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.document import plain
from specdec_cli.ui.sinks import Display, open_sink
from specdec_cli.ui.summary import Summary
from tests.ui.runs import a_round, a_run, play
from tests.ui.terminal import stream


def loads(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def document(events: list[Event]) -> Any:
    out = io.StringIO()
    play(open_sink(Display(json=True), out, None, {}), events)
    assert out.getvalue().endswith("}\n")
    assert out.getvalue().count("\n") == 1
    return loads(out.getvalue())


def test_a_run_of_no_tokens_has_a_document() -> None:
    found = document([Ended(FinishReason.LENGTH, "")])
    assert found["text"] == ""
    assert found["tokens"] == found["rounds"] == []
    assert found["statistics"]["finish"] == "length"
    assert found["statistics"]["acceptance_rate"] is None
    assert found["statistics"]["ttft_s"] is None


def test_a_run_of_one_token_has_a_document() -> None:
    found = document(a_run(["Hi"]))
    assert found["text"] == "Hi"
    assert found["tokens"] == [7]
    assert found["statistics"]["ttft_s"] == 1.0
    assert found["statistics"]["generation_tokens_per_s"] is None


def test_a_run_without_drafts_has_no_acceptance() -> None:
    found = document(a_run(["a", "b", "c"]))
    assert found["statistics"]["acceptance_rate"] is None
    assert found["statistics"]["mean_acceptance_length"] == 1.0
    assert found["statistics"]["acceptance_by_position"] == []
    assert {entry["drafter"] for entry in found["rounds"]} == {None}


def test_each_round_is_told_and_unknown_probabilities_are_null() -> None:
    done = a_round(0, "a日", drafted=(3, 4), n_accepted=1, emitted=(3, 9), kind=Kind.RECOVERED, prob=(0.75, math.nan))
    found = document([done, Ended(FinishReason.END, "!")])
    (told,) = found["rounds"]
    assert found["text"] == "a日!"
    assert told["drafted"] == [3, 4]
    assert told["drafted_by"] == [told["drafter"]] * 2
    assert told["draft_prob"] == [0.75, None]
    assert told["accepted"] == 1
    assert told["kind"] == "recovered"
    assert told["emitted"] == [3, 9]
    assert told["p"] == [0.5, 0.5]
    assert told["at_s"] == 1.0
    assert found["statistics"]["acceptance_by_position"] == [
        {"accepted": 1, "verified": 1, "rate": 1.0},
        {"accepted": 0, "verified": 1, "rate": 0.0},
    ]


def test_settings_models_and_notices_are_in_the_document() -> None:
    out, err = io.StringIO(), io.StringIO()
    settings = {"temp": {"value": 0.0, "source": "--temp"}}
    with open_sink(Display(json=True), out, err, {}) as sink:
        sink.notice("Drafting is off.")
        sink.finish(Summary(RunStats(), "none", 3, settings, {"target": {"path": Path("a.gguf"), "n_ctx": np.int64(512)}}))
    found = loads(out.getvalue())
    assert found["settings"] == settings
    assert found["models"] == {"target": {"path": "a.gguf", "n_ctx": 512}}
    assert found["notices"] == ["Drafting is off."]
    assert (found["drafter"], found["seed"]) == ("none", 3)
    assert err.getvalue() == "note: Drafting is off.\n"


def test_quiet_json_leaves_standard_error_empty() -> None:
    out, err = io.StringIO(), io.StringIO()
    sink = open_sink(Display(json=True, quiet=True), out, err, {})
    sink.notice("Drafting is off.")
    play(sink, a_run(["x"]))
    assert err.getvalue() == ""
    assert loads(out.getvalue())["notices"] == ["Drafting is off."]


def test_an_error_leaves_standard_output_empty() -> None:
    out = io.StringIO()
    sink = open_sink(Display(json=True), out, None, {})
    sink.event(a_round(0, "x"), RunStats())
    with pytest.raises(KeyboardInterrupt), sink:
        raise KeyboardInterrupt
    assert out.getvalue() == ""


def test_a_path_that_is_no_utf8_stays_json() -> None:
    taken: list[bytes] = []
    with open_sink(Display(json=True), stream(taken.append), None, {}) as sink:
        sink.finish(Summary(RunStats(), "none", 0, {}, {"target": "\udcff.gguf"}))
    assert loads(b"".join(taken).decode())["models"] == {"target": "\udcff.gguf"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (np.float32("nan"), None),
        (-math.inf, "-Infinity"),
        (np.float64("inf"), "Infinity"),
        (np.float32(0.5), 0.5),
        (True, True),
        ({7: -math.inf}, {"7": "-Infinity"}),
        (FinishReason.STOP, "stop"),
        (np.array([1, 2]), [1, 2]),
    ],
)
def test_values_become_what_json_has(value: object, expected: object) -> None:
    assert plain(value) == expected
    loads(json.dumps(plain(value), allow_nan=False))
