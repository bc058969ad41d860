"""The name of a vocabulary's family: models that share it draft for each other."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from specdec_cli.pairing.compat import compare
from specdec_cli.pairing.family import family
from specdec_cli.pairing.findings import Rule, Verdict
from tests.gguf_files import smollm2

T = TokenType
Words = Sequence[tuple[str, int]]  # texts and types

TEXT: Words = [("Hello", T.NORMAL), ("▁world", T.NORMAL), ("<0x0A>", T.BYTE), ("\n", T.NORMAL)]
CONTROL: Words = [("<s>", T.CONTROL), ("</s>", T.CONTROL)]


def vocab(words: Words, model: str = "llama", pre: str | None = None) -> Vocabulary:
    encoded = [text.encode() for text, _ in words]
    raw = b"".join(struct.pack("<Q", len(item)) + item for item in encoded)
    types = np.array([kind for _, kind in words], np.int32)
    return Vocabulary(model, pre, StringArray(raw, len(words)), types, *(None,) * 9)


def test_it_reads_as_the_pre_tokenizer_and_the_number_of_tokens_of_text() -> None:
    name, n, digits = family(vocabulary(read_header(smollm2()))).split()
    assert (name, n) == ("smollm", "49,135")
    assert len(digits) == 6


@pytest.mark.parametrize(
    ("model", "pre", "name"),
    [("llama", None, "spm"), ("llama", "default", "spm"), ("gpt2", None, "bpe"), ("gpt2", "qwen2", "qwen2"), ("t5", "", "t5")],
)
def test_without_a_pre_tokenizer_it_is_called_after_its_kind(model: str, pre: str | None, name: str) -> None:
    assert family(vocab(TEXT, model, pre)).startswith(f"{name} 4 ")


@pytest.mark.parametrize(
    "other",
    [
        [*TEXT, ("<|im_start|>", T.CONTROL), ("<|im_end|>", T.CONTROL)],
        [*TEXT, *CONTROL, *((f"[PAD{i}]", T.UNUSED) for i in range(9))],
        [*TEXT, *CONTROL, *((f"<unused{i}>", T.NORMAL) for i in range(9))],
        [*TEXT, *CONTROL, ("", T.NORMAL)],
        [("Hello", T.USER_DEFINED), (" world", T.USER_DEFINED), *TEXT[2:], *CONTROL],
    ],
    ids=["control tokens", "padding", "placeholders", "empty", "user-defined text"],
)
def test_padding_control_tokens_and_the_type_of_text_leave_it_the_same(other: Words) -> None:
    assert family(vocab(other)) == family(vocab([*TEXT, *CONTROL]))


@pytest.mark.parametrize(
    "other",
    [
        [TEXT[1], TEXT[0], *TEXT[2:]],
        [("Hallo", T.NORMAL), *TEXT[1:]],
        [*TEXT[:2], ("<0x0A>", T.NORMAL), TEXT[3]],
        [*TEXT[:3], ("\n", T.CONTROL)],
        [*TEXT, ("more", T.NORMAL)],
        [*TEXT, ("<tool>", T.USER_DEFINED)],
        [("Hell", T.NORMAL), ("o▁world", T.NORMAL), *TEXT[2:]],
    ],
    ids=["order", "text", "byte", "control", "longer", "user-defined", "borders"],
)
def test_other_text_is_another_family(other: Words) -> None:
    assert family(vocab(other)) != family(vocab(TEXT))


def test_the_kind_of_tokenizer_tells_families_apart() -> None:
    assert family(vocab(TEXT, "gpt2", "x")) != family(vocab(TEXT, "llama", "x"))


def test_of_vocabularies_that_differ_in_the_pre_tokenizer_number_and_digits_are_the_same() -> None:
    one, other = family(vocab(TEXT, pre="qwen2")), family(vocab(TEXT, pre="deepseek-r1-qwen"))
    assert one.split()[1:] == other.split()[1:]
    assert one != other


def test_a_name_out_of_a_file_can_neither_steer_a_terminal_nor_fill_it() -> None:
    assert family(vocab(TEXT, pre="\x1b[2J " + "x" * 1000)).startswith("?" + "?2J?" + "x" * 15 + " 4 ")


texts = st.sampled_from(["a", "b", " a", "▁a", "<0x61>", "<unused1>", "<unused2>", "[PAD3]", "<s>", "", "ĠA", "\u00e9", "é b"])
words = st.lists(st.tuples(texts, st.sampled_from(list(T))), min_size=1, max_size=5)


@settings(max_examples=1000, deadline=None)
@given(words, words, st.sampled_from(["llama", "gpt2", "t5"]))
def test_models_of_one_family_draft_for_each_other(one: Words, other: Words, model: str) -> None:
    target, draft = vocab(one, model), vocab(other, model)
    if family(target) != family(draft):
        return
    for result in (compare(target, draft), compare(draft, target)):
        nothing_to_draft = any(finding.rule is Rule.TEXT and not len(finding.ids) for finding in result.findings)
        assert nothing_to_draft or result.verdict <= Verdict.NOTES
