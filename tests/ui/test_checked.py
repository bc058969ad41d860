"""The report of check, as people see it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.judge import judge, to_json
from specdec_cli.pairing.planned import Plan
from specdec_cli.ui.checked import render_checked
from tests.gguf_files import smollm2
from tests.pairing.written import SPM, Written

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def checked(tmp_path: Path, target: Written, draft: Written | None) -> dict[str, Any]:
    headers = [
        read_header(each.write(tmp_path / f"{name}.gguf", weights=True))
        for name, each in (("target", target), ("draft", draft))
        if each is not None
    ]
    return to_json(judge(headers[0], headers[1] if draft is not None else None))


def shown(document: dict[str, Any], plan: Plan | None = None, *, colour: bool = False, columns: int = 80) -> str:
    return render_checked(document, plan, colour=colour, columns=columns)


def test_models_verdict_findings_and_steps_stand_in_this_order(tmp_path: Path) -> None:
    text = shown(checked(tmp_path, SPM, SPM.changed(1, "<bos>")))
    places = [text.index(word) for word in ("target.gguf", "draft.gguf", "compatible with notes", "control", "what to do")]
    assert places == sorted(places)
    assert "299 of 300 tokens can be drafted" in text
    assert "'<s>' in the target" in text


def test_differing_tokens_are_listed_with_both_readings(tmp_path: Path) -> None:
    lines = shown(checked(tmp_path, SPM, SPM.shuffled(264, 284))).splitlines()
    listed = [line.split() for line in lines if re.match(r"\s+2\d\d  '", line)]
    assert listed[0] == ["264", "'", "word5'", "'", "word24'"]
    assert len(listed) == 5
    assert any("15 more" in line for line in lines)
    assert any(line.startswith("x  text") for line in lines)


def test_tokens_of_lesser_findings_are_left_out_of_an_incompatible_report(tmp_path: Path) -> None:
    other = SPM.shuffled(264, 284).changed(1, "<bos>").changed(2, "<eos>")
    text = shown(checked(tmp_path, SPM, other))
    assert "2 control tokens differ" in text
    assert not re.search(r"^\s+1  '<s>'", text, re.MULTILINE)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_lines_fit_the_columns_but_for_commands_which_stay_whole(tmp_path: Path, columns: int) -> None:
    document = checked(tmp_path, SPM, SPM.changed(1, "<bos>"))
    lines = shown(document, columns=columns).splitlines()
    commands = [step["command"] for step in document["advice"]]
    assert all(f"    {command}" in lines for command in commands)
    assert all(len(line) <= columns for line in lines if line.strip() not in commands)


def test_colours_change_nothing_but_the_look(tmp_path: Path) -> None:
    document = checked(tmp_path, SPM, SPM.swapped(270, 275))
    coloured = shown(document, colour=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in shown(document)
    plain = [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()]
    assert plain == shown(document).splitlines()


def test_a_target_alone_says_what_can_draft_for_it() -> None:
    document = to_json(judge(read_header(smollm2()), None))
    text = shown(document)
    assert "what can draft for it" in text
    assert re.search(r"^ *model .*same tokens", text, re.MULTILINE)
    assert re.search(r"^ *ngram ", text, re.MULTILINE)
    document["drafters"] = []
    assert "nothing can draft for it" in shown(document)


def test_text_from_a_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    document = checked(tmp_path, SPM, None)
    document["target"]["label"] = "a\x1b[2Jb\nc"
    text = shown(document)
    assert "\x1b" not in text
    assert r"a\x1b[2Jb c" in text
