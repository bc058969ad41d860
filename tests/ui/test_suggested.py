"""The answer of suggest for people: it fits the columns, its commands stay whole, and nothing in it steers a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli.ui.suggested import render_suggested

COMMAND = (
    "specdec run /a/very/long/path/to/the/models/of/somebody/target-model-q4_k_m.gguf --draft /a/very/long/path/small.gguf"
)


def _draft(**changes: Any) -> dict[str, Any]:
    return {
        "draft": "/models/small-model-instruct-q4_0.gguf",
        "bytes": 428_730_240,
        "cost": 0.351,
        "acceptance": 0.7,
        "speed_up": 1.31,
        "cpu_speed_up": 1.0,
        "same_family": True,
        "fits_memory": True,
        "findings": [],
        "command": COMMAND,
        **changes,
    }


def _known(**changes: Any) -> dict[str, Any]:
    return {
        "draft": "owner/Small-Instruct-GGUF:Q4_0",
        "family": "Toy",
        "same_family": True,
        "bytes": 300_000_000,
        "licence": "Llama 3.2 Community License",
        "note": "A note of some length, which does not fit on one line of the table at eighty columns.",
        "here": None,
        "speed_up": 1.4,
        "cpu_speed_up": 1.2,
        "command": "specdec run target.gguf --draft owner/Small-Instruct-GGUF:Q4_0",
        **changes,
    }


def _document(**changes: Any) -> dict[str, Any]:
    return {
        "target": {
            "label": "target-model-q4_k_m.gguf",
            "family": "Toy",
            "architecture": "llama",
            "parameters": 1_777_088_000,
            "quantisation": "Q4_K_M",
            "bytes_per_token": 980_000_000,
        },
        "drafts": [_draft()],
        "known": [_known()],
        "not_worth": [],
        "left_out": [],
        "unreadable": [],
        "draft_free": [{"draft": "ngram", "what": "Guesses.", "command": "specdec run target.gguf --draft ngram"}],
        "gpus": [],
        "notices": [],
        **changes,
    }


def _rendered(columns: int = 80, colour: bool = False, **changes: Any) -> str:
    return render_suggested(_document(**changes), colour=colour, columns=columns)


@pytest.mark.parametrize("columns", [80, 60, 200])
def test_all_but_the_commands_fits_the_columns(columns: int) -> None:
    for line in _rendered(columns).splitlines():
        assert len(line) <= columns or line.startswith("  specdec run ")


def test_a_command_is_never_cut() -> None:
    assert f"\n  {COMMAND}\n" in _rendered(40, gpus=["CUDA0"])


def test_the_best_of_each_kind_comes_with_its_command() -> None:
    commands = [line for line in _rendered(gpus=["CUDA0"]).splitlines() if line.startswith("  specdec run ")]
    assert [command.split("--draft ")[1] for command in commands] == [
        "/a/very/long/path/small.gguf",
        "owner/Small-Instruct-GGUF:Q4_0",
        "ngram",
    ]


def test_a_figure_without_a_gain_is_told_as_that() -> None:
    line = next(line for line in _rendered().splitlines() if "small-model" in line)
    assert line.split()[-3:] == ["1.3x", "no", "gain"]


def test_a_draft_that_brings_nothing_here_is_not_recommended() -> None:
    commands = [line for line in _rendered().splitlines() if line.startswith("  specdec run ")]
    assert not any("small.gguf" in command for command in commands)


def test_a_name_is_readable_in_a_narrow_window() -> None:
    assert "small-model" in _rendered(40)


def test_licences_are_shown() -> None:
    text = " ".join(_rendered(200).split())
    assert "Llama 3.2 Community License" in text


def test_the_figures_for_a_cpu_are_pointed_to_where_there_is_no_gpu() -> None:
    assert "No GPU of this machine" in " ".join(_rendered().split())
    assert "No GPU of this machine" not in " ".join(_rendered(gpus=["CUDA0"]).split())
    assert "no draft model pays here" not in " ".join(_rendered().split())
    assert "no draft model pays here" in " ".join(_rendered(known=[]).split())


def test_what_matters_stands_below_a_draft() -> None:
    draft = _draft(same_family=False, fits_memory=False, findings=["The vocabularies differ a little."])
    text = " ".join(_rendered(200, drafts=[draft]).split())
    assert "Of another family" in text
    assert "more than the free memory" in text
    assert "The vocabularies differ a little." in text


def test_a_known_draft_that_is_here_is_not_named_twice() -> None:
    assert "owner/Small-Instruct-GGUF" not in _rendered(known=[_known(here="/cache/small.gguf")])


def test_without_a_draft_that_is_said() -> None:
    text = _rendered(drafts=[], known=[])
    assert "No model on this machine that was looked at can draft for it." in text
    assert "estimated" not in text


def test_what_was_left_out_is_counted() -> None:
    left = [{"reason": "vocabulary"}, {"reason": "vocabulary"}, {"reason": "kind"}]
    broken = [{"sentence": "x.gguf is damaged."}, {"sentence": "y.gguf is damaged."}]
    text = " ".join(_rendered(left_out=left, not_worth=[_draft()], unreadable=broken).split())
    assert "2 have other vocabularies, 1 is no model that writes text, 1 would make it no faster." in text
    assert "2 files cannot be read: x.gguf is damaged." in text


def test_no_file_name_steers_the_terminal() -> None:
    text = _rendered(drafts=[_draft(draft="/models/a\x1b[31m\nb.gguf")], notices=["bad\x1b]0;title\x07"])
    assert "\x1b" not in text
    assert "\x07" not in text


def test_colour_changes_no_letter() -> None:
    import re

    plain = re.sub(r"\x1b\[[0-9;]*m", "", _rendered(colour=True))
    assert [line.rstrip() for line in plain.splitlines()] == _rendered().splitlines()
