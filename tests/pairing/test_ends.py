"""End-of-generation ids, beside llama.cpp's own answer for the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.pairing.ends import end_tokens
from tests.pairing import llama_rule
from tests.pairing.written import BPE, N_SPM, SPM, Written

C, N = TokenType.CONTROL, TokenType.NORMAL


def grown(*texts: str, kind: int = C) -> Written:
    return SPM.grown(*((text, kind) for text in texts))


def ends(path: Path) -> frozenset[int]:
    header = read_header(path)
    return end_tokens(header, vocabulary(header))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (SPM, {2}),
        (SPM.keyed(eos_token_id=0), {0, 2}),  # "</s>" ends it by its text
        (SPM.keyed(eos_token_id=None), {2}),
        (SPM.keyed(eos_token_id=10**6), {2}),
        (BPE.keyed(eos_token_id=None), {11, 296, 298}),  # the id that llama.cpp takes where a byte-pair file names none
        (SPM.keyed(eot_token_id=260, eom_token_id=261), {2, 260, 261}),
        (SPM.keyed(eot_token_id=10**6), {2}),
        (grown("<|eot_id|>", "<|eom_id|>", "<end_of_turn>"), {2, N_SPM, N_SPM + 1, N_SPM + 2}),
        (grown("<|im_end|>", kind=N), {2, N_SPM}),  # however it is typed
        (grown("<|return|>", "<|call|>", "<|end|>"), {2, N_SPM, N_SPM + 1}),
        (grown("<|return|>", "<|end|>"), {2, N_SPM, N_SPM + 1}),
        (grown("<|calls|>", "<|flush|>", "<|end|>"), {2, N_SPM, N_SPM + 1}),
        (grown("<|tool_response>", "<turn|>"), {N_SPM, N_SPM + 1}),  # "</s>" is text here
        (grown("<|tool_response>").keyed(eos_token_id=2), {N_SPM}),
        (grown("<|plamo:eos|>").keyed(eos_token_id=N_SPM), {N_SPM}),
        (grown("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_prefix|>"), {2, N_SPM, N_SPM + 1, N_SPM + 2}),
        (grown("<fim_pad>", "other").keyed(fim_pad_token_id=N_SPM + 1), {2, N_SPM + 1}),
        (grown("<fim_pad>").keyed(fim_pad_token_id=10**6), {2, N_SPM}),
        (grown("<REPO>", "sep").keyed(fim_sep_token_id=N_SPM + 1, fim_rep_token_id=5), {2, 5, N_SPM + 1}),
        (grown("[e~[", "<｜end▁of▁sentence｜>", "_<EOT>"), {2, N_SPM, N_SPM + 1, N_SPM + 2}),
    ],
)
def test_end_tokens_are_those_of_llama_cpp(written: Written, expected: set[int], tmp_path: Path) -> None:
    path = written.write(tmp_path / "v.gguf")
    assert ends(path) == expected
    assert ends(path) == llama_rule.read(path).ends


def test_where_texts_compete_for_a_role_all_of_them_count(tmp_path: Path) -> None:
    """llama.cpp takes the one that its hash table lists first."""
    path = grown("<|fim_pad|>", "<PAD>", "[PAD]").write(tmp_path / "v.gguf")
    theirs = llama_rule.read(path).ends
    assert ends(path) == {2, N_SPM, N_SPM + 1, N_SPM + 2}
    assert theirs < ends(path)
    assert len(theirs) == 2


@pytest.mark.model
def test_end_tokens_of_a_real_model_are_those_of_llama_cpp(smollm2: Path) -> None:
    assert ends(smollm2) == llama_rule.read(smollm2).ends == {0, 2, 4}
