"""Tiny models of a family: the same tokens, more or fewer weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from specdec_cli.gguf.constants import TokenType
from tests.gguf_files import write_vocab_gguf

WORDS = [chr(code) for code in range(0x21, 0x7F)]
TOKENS = ["<|end|>", *WORDS, *(a + b for a in "abcdefgh" for b in "abcdefghijklmn")]
OTHER_TOKENS = ["<|end|>", *(a + b for a in "qrstuvwx" for b in "abcdefghijklmnopqrstuvwxyz")]

PAIRS = """\
family: Toy
description: Toys.
vocabulary:
  tokenizer: gpt2
  pre: [toy, default]
  size: 200-300
  tokens:
    0: <|end|>
targets:
  - toy-(big|small)
drafts:
  - reference: owner/Toy-Small-GGUF:Q4_0
    name: Toy Small
    parameters: 1K
    licence: MIT
    source: https://example.org/toy
    note: It is small.
"""


def write_model(
    path: Path,
    width: int,
    name: str,
    tokens: Sequence[str] = TOKENS,
    metadata: Mapping[str, object] | None = None,
    architecture_tensors: Mapping[str, tuple[int, ...]] | None = None,
) -> Path:
    """A model whose one block is width x width in F32. It has an output of its own, so the embedding is only looked up."""
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(tokens), 32),
        "output.weight": (len(tokens), 32),
        "output_norm.weight": (32,),
        "blk.0.ffn_up.weight": (width, width),
        **(architecture_tensors or {}),
    }
    types = [TokenType.CONTROL, *[TokenType.NORMAL] * (len(tokens) - 1)]
    extra = {"general.name": name, "general.file_type": 0, "tokenizer.ggml.eos_token_id": 0, **(metadata or {})}
    tensors = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
    return write_vocab_gguf(path, list(tokens), types, extra=extra, tensors=tensors)
