"""Files that are no model for text are refused by kind, before any native load."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.parse import StringArray, TensorInfo, Value
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from tests.gguf_files import TINY, smollm2, write_gguf, write_vocab_gguf

ARRAY, INT32 = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT32


def refusal(path: Path, role: Role = "draft") -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        check_runnable(read_header(path), role)
    assert caught.value.what.startswith(f"The {role} model {path}")
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def test_real_model_is_runnable() -> None:
    check_runnable(read_header(smollm2()), "target")


def test_small_model_is_runnable(tmp_path: Path) -> None:
    extra: dict[str, object] = {"llama.pooling_type": 0, "llama.attention.causal": True, "llama.expert_count": 0}
    check_runnable(read_header(write_vocab_gguf(tmp_path / "m.gguf", ["a", "b"], extra=extra, tensors=TINY)))


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("clip", "projector"),
        *[
            (name, "embedding model")
            for name in (
                "bert",
                "modern-bert",
                "nomic-bert",
                "nomic-bert-moe",
                "neo-bert",
                "jina-bert-v2",
                "jina-bert-v3",
                "eurobert",
                "gemma-embedding",
                "llama-embed",
                "t5encoder",
            )
        ],
        ("t5", "encoder-decoder"),
        ("llada", "diffusion"),
        ("dream", "diffusion"),
        ("eagle3", "draft head"),
        ("dflash", "draft head"),
        ("wavtokenizer-dec", "audio"),
        ("controlvector", "control vector"),
    ],
)
def test_architectures_that_write_no_text(tmp_path: Path, architecture: str, words: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", {}, TINY, architecture)
    error = refusal(path, "target")
    assert words in error.what
    assert architecture in error.why


@pytest.mark.parametrize(
    ("kind", "words"), [("adapter", "LoRA adapter"), ("imatrix", "importance matrix"), ("mmproj", "projector")]
)
def test_files_that_belong_to_a_model(tmp_path: Path, kind: str, words: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.type": kind}, TINY)
    assert words in refusal(path).what


def test_vocabulary_only(tmp_path: Path) -> None:
    assert "vocabulary only" in refusal(write_vocab_gguf(tmp_path / "v.gguf", ["a", "b"])).what


@pytest.mark.parametrize("value", [3, "", None])
def test_no_architecture(tmp_path: Path, value: object) -> None:
    changes = {} if value is None else {"general.architecture": value}
    path = write_gguf(tmp_path / "m.gguf", changes, TINY)
    if value is None:
        # The writer always names one: misspell its key in place.
        path.write_bytes(path.read_bytes().replace(b"general.architecture", b"general.architectura"))
    assert "does not say" in refusal(path).what


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"llama.pooling_type": 3}, "an embedding model"),
        ({"llama.pooling_type": 4}, "a reranking model"),
        ({"llama.attention.causal": False}, "from left to right"),
        ({"llama.block_count": 0}, "0 layers"),
        ({"llama.block_count": 1 << 31}, "layers"),
        ({"llama.expert_count": 4, "llama.expert_used_count": 8}, "8 experts of 4"),
        ({"llama.expert_count": 4}, "0 experts of 4"),
        ({"llama.expert_count": 4, "llama.expert_used_count": (ARRAY, [2, 9], INT32)}, "9 experts of 4"),
        ({"tokenizer.ggml.model": "no_vocab"}, "no vocabulary"),
    ],
)
def test_metadata_that_rules_a_model_out(tmp_path: Path, extra: dict[str, object], words: str) -> None:
    path = write_vocab_gguf(tmp_path / "m.gguf", ["a", "b"], extra=extra, tensors=TINY)
    assert words in str(refusal(path))


@pytest.mark.parametrize(
    ("tokens", "pair"),
    [
        (["a", "b", "c", "b"], "1 and 3"),
        (["a", "b\0x", "b\0y"], "1 and 2"),
        (["[EMPTY_2]", "b", ""], "0 and 2"),
    ],
)
def test_tokens_with_one_text_are_refused_because_llama_cpp_would_abort(tmp_path: Path, tokens: list[str], pair: str) -> None:
    path = write_vocab_gguf(tmp_path / "m.gguf", tokens, tensors=TINY)
    assert f"tokens {pair} have the same text" in refusal(path).why


def test_empty_tokens_are_told_apart_as_llama_cpp_does(tmp_path: Path) -> None:
    check_runnable(read_header(write_vocab_gguf(tmp_path / "m.gguf", ["a", "", ""], tensors=TINY)))


values = st.one_of(
    st.integers(-(2**31), 2**32),
    st.booleans(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(lambda items: np.array(items, np.int32)),
    st.lists(st.binary(max_size=4), max_size=4).map(
        lambda items: StringArray(b"".join(struct.pack("<Q", len(item)) + item for item in items), len(items))
    ),
)
KEYS = (
    "general.type",
    "general.name",
    "general.file_type",
    "llama.pooling_type",
    "llama.attention.causal",
    "llama.block_count",
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.context_length",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.add_bos_token",
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_values_of_any_type_are_taken_or_refused_and_nothing_else(metadata: dict[str, Value]) -> None:
    whole = {"general.architecture": "llama", "tokenizer.ggml.model": "llama", **metadata}
    header = Header((Path("m.gguf"),), 3, whole, (TensorInfo("a", (1,), "F32", 0, 4),), 4, 4)
    assert header.name
    assert header.quantisation
    try:
        check_runnable(header, "draft")
    except ModelFileError:
        return
    vocab = vocabulary(header)
    assert len(vocab.types) == vocab.n_vocab == header.n_vocab
    assert all(vocab.shown(i) for i in range(vocab.n_vocab))


@pytest.mark.parametrize("epsilon", [-1.0, float("nan")])
def test_an_epsilon_that_llama_cpp_asserts_on_is_refused(tmp_path: Path, epsilon: float) -> None:
    extra: dict[str, object] = {"llama.attention.layer_norm_rms_epsilon": epsilon}
    path = write_vocab_gguf(tmp_path / "m.gguf", ["a", "b"], extra=extra, tensors=TINY)
    assert "layer_norm_rms_epsilon" in refusal(path).why


def test_a_sentencepiece_vocabulary_without_bytes_is_refused(tmp_path: Path) -> None:
    check_runnable(read_header(write_vocab_gguf(tmp_path / "bpe.gguf", ["a", "b"], model="gpt2", tensors=TINY)))
    assert "<0x0A>" in refusal(write_vocab_gguf(tmp_path / "m.gguf", ["a", "b"], model="llama", tensors=TINY)).why
    check_runnable(read_header(write_vocab_gguf(tmp_path / "n.gguf", ["a", "<0x0A>"], model="llama", tensors=TINY)))
