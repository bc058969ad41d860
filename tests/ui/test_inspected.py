"""What inspect found, as lines: whole on a narrow terminal, plain without colour."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from specdec_cli.ui.inspected import render_inspected, render_tokens

DOCUMENT: dict[str, Any] = {
    "name": "A Model",
    "label": "a.gguf",
    "files": ["a.gguf"],
    "bytes": 1_000_000,
    "kind": "model",
    "runs": True,
    "reason": None,
    "fix": None,
    "architecture": "llama",
    "parameters": 2_000_000,
    "active_parameters": None,
    "quantisation": "Q4_0",
    "bits_per_weight": 4.5,
    "tensor_types": [{"type": "Q4_0", "tensors": 3, "bytes": 900_000}, {"type": "F32", "tensors": 1, "bytes": 100_000}],
    "layers": 2,
    "heads": [2, 4],
    "kv_heads": 2,
    "embedding": 64,
    "feed_forward": None,
    "experts": None,
    "experts_used": None,
    "trained_context": 4096,
    "sliding_window": 512,
    "rope": {"base": None, "scaling": None, "factor": None, "original_context": None},
    "vocabulary": None,
    "vocabulary_missing": "There are no tokens.",
    "special_tokens": [],
    "chat_template": None,
    "sampling": {},
    "licence": "mit",
    "base_models": [],
    "adapter": None,
    "projector": None,
}
VOCABULARY = {
    "kind": "gpt2",
    "pre_tokenizer": "qwen2",
    "family": "qwen2 9 abcdef",
    "tokens": 10,
    "types": {"normal": 9, "user_defined": 1},
    "merges": 1,
    "add_bos": True,
    "add_eos": None,
}


def shown(columns: int = 80, *, whole: bool = False, colour: bool = False, **changes: Any) -> str:
    return render_inspected(DOCUMENT | changes, whole=whole, colour=colour, columns=columns)


def test_only_what_is_known_is_shown() -> None:
    assert shown() == (
        "A Model\n"
        "file          a.gguf\n"
        "size          1.00 MB\n"
        "kind          a model that writes text\n"
        "architecture  llama\n"
        "parameters    2.00 M (2,000,000)\n"
        "quantisation  Q4_0, 4.5 bits per weight\n"
        "tensors       4: Q4_0 90 %, F32 10 %\n"
        "layers        2\n"
        "embedding     64\n"
        "heads         2 to 4 by layer, 2 for keys and values\n"
        "context       4,096 tokens, sliding window 512\n"
        "vocabulary    none. There are no tokens.\n"
        "licence       mit"
    )


def test_a_vocabulary_its_special_tokens_and_a_template() -> None:
    text = shown(
        vocabulary=VOCABULARY,
        special_tokens=[
            {"role": "eos", "id": 3, "text": "'</s>'", "ends": True},
            {"role": None, "id": 4, "text": "'<eot>'", "ends": True},
        ],
        chat_template={"characters": 1234, "tools": True, "thinking": True, "others": ["rag"], "text": "{{ x }}"},
    )
    assert "10 tokens: 9 normal, 1 user-defined\n" in text
    assert "BOS: yes, EOS: not said" in text
    assert "eos 3 '</s>' (ends)\n                4 '<eot>' (ends)\n" in text
    assert "1,234 characters, with tools and thinking; others for rag" in text
    assert "{{ x }}" not in text


def test_the_whole_template_is_shown_where_asked_and_steers_no_terminal() -> None:
    template = {"characters": 9, "tools": False, "thinking": False, "others": [], "text": "a\n\tb\x1b[2J"}
    assert shown(vocabulary=VOCABULARY, chat_template=template, whole=True).endswith("\n\na\n\tb\\x1b[2J")


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_lines_fit_the_terminal(columns: int) -> None:
    text = shown(columns, name="n" * 30, base_models=["https://hub.example/" + "long/" * 30], licence="word " * 60)
    assert max(map(cell_len, text.splitlines())) <= columns


def test_colour_is_only_there_where_it_is_allowed() -> None:
    assert "\x1b[" in shown(colour=True)
    assert "\x1b" not in shown(name="\x1b[31mred")


def test_tokens_stand_in_columns() -> None:
    tokens = [{"id": 7, "type": "normal", "text": "' a'"}, {"id": 12345, "type": "control", "text": "'<s>'"}]
    assert render_tokens(tokens) == "    7  normal   ' a'\n12345  control  '<s>'"
    assert render_tokens([]) == "no token matches"
