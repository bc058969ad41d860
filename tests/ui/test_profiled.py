"""Profiles as text for people: they fit the columns, and what stands in a file steers no terminal."""

from __future__ import annotations

from typing import Any

from specdec_cli.ui.profiled import render_family, render_list, render_profile

PLACE: dict[str, Any] = {"name": "mine", "path": "/home/me/mine.yaml", "origin": "own"}


def test_the_list_fits_the_columns_and_tells_faults() -> None:
    entries = [
        {
            **PLACE,
            "kind": "settings",
            "description": "A sentence about what it is for, longer than a line has room for.",
            "fault": None,
        },
        {**PLACE, "kind": "pairs", "description": None, "fault": "mine.yaml, line 3: there is no topk."},
    ]
    text = render_list({"own_folder": "/home/me", "profiles": entries}, colour=False, columns=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "line 3: there is no topk" in " ".join(text.split())


def test_settings_stand_one_a_line() -> None:
    settings = {"temp": "0.3", "stop": ["a", "b\x1b[31m\n"]}
    text = render_profile({**PLACE, "kind": "settings", "description": "x", "settings": settings}, colour=False, columns=80)
    assert "temp  0.3" in text
    assert "\x1b" not in text


def test_a_family_tells_its_signs_and_drafts() -> None:
    draft = {
        "draft": "owner/repo:Q4_0",
        "name": "Small",
        "parameters": 494_000_000,
        "bytes": None,
        "licence": "MIT",
        "source": "https://example.org/a/page",
        "note": None,
    }
    words = {"tokenizer": "gpt2", "pre_tokenizers": ["qwen2"], "size": (10, 20), "tokens": [{"id": 5, "text": "<|x|>"}]}
    family = {"family": "Toy", "vocabulary": words, "targets": ["toy"], "drafts": [draft]}
    text = render_family({**PLACE, "kind": "pairs", "description": None, **family}, colour=False, columns=80)
    for part in (
        "gpt2, pre-tokenizer qwen2",
        "10 to 20",
        "5 is <|x|>",
        "owner/repo:Q4_0",
        "494 M parameters",
        "MIT",
        "example.org",
    ):
        assert part in text
