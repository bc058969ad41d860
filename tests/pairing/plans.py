"""Headers and machines for memory plans: small files for sizes, and big tensors that stand in no file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import TensorInfo, Value
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.planned import Gpu, Machine
from tests.gguf_files import TINY, write_gguf

AVX2 = frozenset({"REPACK", "AVX2"})
MB = 10**6


def header_of(folder: Path, architecture: str, own: Mapping[str, object]) -> Header:
    """The header of a file of this architecture. own: its metadata, without the architecture's name."""
    metadata = {f"{architecture}.{key}": value for key, value in own.items()}
    return read_header(write_gguf(folder / f"{architecture}.gguf", metadata, TINY, architecture))


def big_header(name: str = "target.gguf", n_layers: int = 4, layer_mb: int = 100, tied: bool = False) -> Header:
    """A model in F16 of n_layers blocks of so many MB, an output and an embedding of 50 MB each; trained for 4096 tokens.

    A token takes 4 kB of cache in each block.
    """
    block = [TensorInfo(f"blk.{i}.ffn_up.weight", (1024, 1024), "F16", 0, layer_mb * MB) for i in range(n_layers)]
    ends = [TensorInfo("token_embd.weight", (1024, 1000), "F16", 0, 50 * MB)]
    if not tied:
        ends.append(TensorInfo("output.weight", (1024, 1000), "F16", 0, 50 * MB))
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        "llama.block_count": n_layers,
        "llama.embedding_length": 1024,
        "llama.context_length": 4096,
        "llama.attention.head_count": 8,
        "llama.feed_forward_length": np.full(n_layers, 2048, np.int32),
        "llama.vocab_size": 1000,
    }
    tensors = (*ends, *block)
    n_bytes = sum(tensor.n_bytes for tensor in tensors)
    return Header((Path(name),), 3, metadata, tensors, n_bytes, n_bytes)


def machine(free_mb: int, *gpus_mb: int, features: frozenset[str] = AVX2) -> Machine:
    """A machine without a program."""
    return Machine(free_mb * MB, features, tuple(Gpu(f"CUDA{i}", mb * MB) for i, mb in enumerate(gpus_mb)))
