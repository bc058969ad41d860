"""Model files for the command: changed copies of SmolLM2, and a tiny recurrent model."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from tests.gguf_files import write_gguf

Change = tuple[bytes, bytes]  # the bytes of a header, and those that take their place

_N_HEADER = 4 << 20  # more bytes than SmolLM2's header has
_STRING = 8  # GGUF's number of the type


def patched(source: Path, path: Path, *changes: Change, weights: bool = True) -> Path:
    """A copy with other bytes in its header. weights: else the tensors hold zeros, and take no room on the disk."""
    size = source.stat().st_size
    with source.open("rb") as file:
        head = file.read(_N_HEADER)
        rest = file.read() if weights else b""
    for before, after in changes:
        assert len(before) == len(after)
        assert head.count(before) == 1
        head = head.replace(before, after)
    with path.open("wb") as file:
        file.write(head)
        file.write(rest)
        file.truncate(size)
    return path


def text_value(key: str, before: str, after: str) -> Change:
    """The change of a text in the metadata to one of the same length."""
    start = key.encode() + struct.pack("<IQ", _STRING, len(before))
    return start + before.encode(), start + after.encode()


def chat_template(source: Path, template: str) -> Change:
    """The change of the chat template to a shorter one."""
    before = read_header(source).chat_template
    assert before is not None
    return before.encode(), template.encode().ljust(len(before.encode()))


def swapped_tokens(source: Path) -> tuple[Change, int]:
    """The change that swaps two neighbouring tokens of equal length, and the first one's id."""
    tokens = vocabulary(read_header(source)).tokens
    first = next(i for i in range(1000, len(tokens)) if len(tokens[i]) == len(tokens[i + 1]))
    one, other = (struct.pack("<Q", len(token)) + token for token in tokens[first : first + 2])
    return (one + other, other + one), first


def words(source: Path) -> Vocabulary:
    """The vocabulary of a model."""
    return vocabulary(read_header(source))


def write_recurrent(path: Path, n_layers: int = 2, n_embd: int = 32) -> Path:
    """A Mamba model with random weights that writes bytes."""
    rng = np.random.default_rng(1)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256, TokenType.NORMAL]
    n_inner, n_state, n_conv, n_rank = 2 * n_embd, 8, 4, 4

    def random(*shape: int) -> npt.NDArray[np.float32]:
        return rng.normal(0, 0.3, shape).astype(np.float32)

    tensors = {"token_embd.weight": 3 * random(len(tokens), n_embd), "output_norm.weight": np.ones(n_embd, np.float32)}
    for layer in range(n_layers):
        tensors |= {
            f"blk.{layer}.{name}": data
            for name, data in {
                "attn_norm.weight": np.ones(n_embd, np.float32),
                "ssm_in.weight": random(2 * n_inner, n_embd),
                "ssm_conv1d.weight": random(n_inner, n_conv),
                "ssm_conv1d.bias": random(n_inner),
                "ssm_x.weight": random(n_rank + 2 * n_state, n_inner),
                "ssm_dt.weight": random(n_inner, n_rank),
                "ssm_dt.bias": random(n_inner),
                "ssm_a": -np.exp(random(n_inner, n_state)),
                "ssm_d": random(n_inner),
                "ssm_out.weight": random(n_embd, n_inner),
            }.items()
        }
    metadata = {
        "mamba.context_length": 512,
        "mamba.embedding_length": n_embd,
        "mamba.feed_forward_length": 0,
        "mamba.attention.head_count": 0,
        "mamba.attention.layer_norm_rms_epsilon": 1e-5,
        "mamba.block_count": n_layers,
        "mamba.ssm.conv_kernel": n_conv,
        "mamba.ssm.inner_size": n_inner,
        "mamba.ssm.state_size": n_state,
        "mamba.ssm.time_step_rank": n_rank,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    return write_gguf(path, metadata, tensors, "mamba")
