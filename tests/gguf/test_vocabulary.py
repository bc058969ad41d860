"""A vocabulary as its header has it: tokens, types, ids, and what a token writes."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from tests.gguf_files import smollm2, write_gguf, write_vocab_gguf

T = TokenType


def read(path: Path) -> Vocabulary:
    return vocabulary(read_header(path), "draft")


def test_real_vocabulary() -> None:
    vocab = read(smollm2())
    assert (vocab.model, vocab.pre, vocab.n_vocab) == ("gpt2", "smollm", 49152)
    assert (vocab.bos, vocab.eos, vocab.pad) == (1, 2, 2)
    assert (vocab.add_bos, vocab.add_eos) == (False, None)
    assert vocab.tokens[2] == b"<|im_end|>"
    assert vocab.types[2] == T.CONTROL
    assert vocab.merges is not None
    assert len(vocab.merges) == 48900


@pytest.mark.parametrize(
    ("model", "token", "kind", "piece"),
    [
        ("gpt2", "Ġthe", T.NORMAL, b" the"),
        ("gpt2", "Ċ", T.NORMAL, b"\n"),
        ("gpt2", "Ã©", T.NORMAL, "é".encode()),
        ("gpt2", "ð", T.NORMAL, b"\xf0"),
        ("gpt2", "Ġ", T.USER_DEFINED, "Ġ".encode()),
        ("gpt2", "▁a", T.NORMAL, b" a"),
        ("llama", "▁the", T.NORMAL, b" the"),
        ("llama", "<0x0A>", T.BYTE, b"\n"),
        ("llama", "<0x0A>", T.NORMAL, b"<0x0A>"),
        ("llama", "▁▁", T.USER_DEFINED, "▁▁".encode()),
        ("llama", "<s>", T.CONTROL, b"<s>"),
    ],
)
def test_piece_is_what_the_token_writes(tmp_path: Path, model: str, token: str, kind: TokenType, piece: bytes) -> None:
    vocab = read(write_vocab_gguf(tmp_path / "v.gguf", [token], [kind], model))
    assert vocab.piece(0) == piece
    assert vocab.shown(0).startswith(("'", '"'))


def test_every_byte_has_a_character_in_byte_level_bpe(tmp_path: Path) -> None:
    chars = [chr(c) for c in range(0x20, 0x180)]
    vocab = read(write_vocab_gguf(tmp_path / "v.gguf", chars))
    single = {vocab.piece(i) for i in range(len(chars)) if len(vocab.piece(i)) == 1}
    assert single >= {bytes([b]) for b in range(256)}


def test_types_default_to_normal_and_unknown_ones_to_undefined(tmp_path: Path) -> None:
    metadata = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a", "b"]}
    assert read(write_gguf(tmp_path / "none.gguf", metadata)).types.tolist() == [1, 1]
    assert read(write_vocab_gguf(tmp_path / "odd.gguf", ["a", "b"], [99, -1])).types.tolist() == [0, 0]


def test_special_id_out_of_range_counts_as_none(tmp_path: Path) -> None:
    extra = {"tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.bos_token_id": 1}
    vocab = read(write_vocab_gguf(tmp_path / "v.gguf", ["a", "b"], extra=extra))
    assert (vocab.bos, vocab.eos) == (1, None)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"tokenizer.ggml.token_type": [1]}, "2 tokens and 1 token types"),
        ({"tokenizer.ggml.token_type": ["a", "b"]}, "32-bit integers"),
        ({"tokenizer.ggml.token_type": (gguf.GGUFValueType.ARRAY, [1, 1], gguf.GGUFValueType.INT64)}, "32-bit integers"),
        ({"tokenizer.ggml.scores": [0.5]}, "2 tokens and 1 scores"),
        ({"tokenizer.ggml.model": 3}, "no vocabulary"),
        ({"tokenizer.ggml.tokens": 3}, "no vocabulary"),
    ],
)
def test_vocabulary_that_does_not_fit_together_is_refused(tmp_path: Path, extra: dict[str, object], words: str) -> None:
    with pytest.raises(ModelFileError, match=words) as caught:
        read(write_vocab_gguf(tmp_path / "v.gguf", ["a", "b"], extra=extra))
    assert caught.value.what.startswith("The draft model")
