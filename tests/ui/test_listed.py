"""The table of models: families together, names that are never broken, nothing that steers a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from specdec_cli.ui.listed import render_listed

LONG = "hf:somebody/" + "a-very-long-name-" * 6 + "/model-Q4_K_M.gguf"


def model(reference: str, family: str | None = "qwen2 7 abc", kind: str = "model", **other: object) -> dict[str, Any]:
    return {
        "reference": reference,
        "bytes": 398_000_000,
        "kind": kind,
        "runs": kind == "model",
        "quantisation": "Q4_K_M",
        "architecture": "qwen2",
        "parameters": 494_000_000,
        "family": family,
        **other,
    }


def shown(
    *models: dict[str, Any], columns: int = 80, colour: bool = False, broken: Any = (), unfinished: Any = (), folders: Any = ()
) -> str:
    document = {"cache": "/hub", "folders": folders, "models": models, "broken": broken, "unfinished": unfinished}
    return render_listed(document, colour=colour, columns=columns)


def test_models_of_one_family_stand_under_its_name() -> None:
    text = shown(model("a/one:Q4_K_M"), model("a/two:Q4_K_M"), model("b/three:Q8_0", "spm 9 def"))
    assert [line.split()[0] for line in text.splitlines() if line] == [
        "model",
        "qwen2",
        "a/one:Q4_K_M",
        "a/two:Q4_K_M",
        "spm",
        "b/three:Q8_0",
    ]
    assert "398 MB  Q4_K_M  qwen2              494 M" in text


def test_what_cannot_run_says_what_it_is() -> None:
    text = shown(model("a/one:Q4_K_M"), model("hf:a/one/mmproj.gguf", None, "projector", architecture=None, parameters=0))
    assert "\nprojector: cannot run by itself\n  hf:a/one/mmproj.gguf  398 MB  Q4_K_M  n/a" in text


@pytest.mark.parametrize("columns", [20, 40, 80, 100_000])
def test_names_stay_whole_however_narrow_it_is(columns: int) -> None:
    text = shown(model("a/one:Q4_K_M"), model(LONG), columns=columns)
    assert LONG in text
    others = [line for line in text.splitlines() if LONG not in line]
    assert max(map(cell_len, others)) <= max(columns, 60)


def test_broken_files_and_unfinished_downloads_are_listed() -> None:
    text = shown(
        broken=[{"reference": "/m/cut.gguf", "bytes": 10, "reason": "is truncated."}],
        unfinished=[{"reference": "a/b", "bytes": 2_000_000, "reason": "an interrupted download"}],
    )
    assert "broken\n  /m/cut.gguf  10 B\n    is truncated." in text
    assert "a/b  2.00 MB, an interrupted download\n  To complete one: specdec pull a/b" in text


def test_where_there_is_nothing_it_says_where_it_looked_and_what_to_do() -> None:
    text = shown(folders=["/models"])
    assert text.startswith("No models in /hub and /models.")
    assert "specdec pull" in text


def test_names_from_files_steer_no_terminal() -> None:
    text = shown(model("\x1b[2Jevil.gguf", "spm 1 a", architecture="\x1b[31mred"), columns=100_000)
    assert "\x1b" not in text
    assert "\\x1b[2Jevil.gguf" in text


def test_colour_only_marks_headings() -> None:
    assert "\x1b[1mqwen2 7 abc\x1b[0m" in shown(model("a/one:Q4_K_M"), colour=True)
