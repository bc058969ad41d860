"""What a GGUF header says about a model, and what people call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.gguf.constants import FILE_TYPES
from specdec_cli.gguf.parse import StringArray, TensorInfo, Value


@dataclass(frozen=True, eq=False)
class Header:
    """The header of a model, of all its files together if it is split."""

    paths: tuple[Path, ...]  # the files in order; llama.cpp is given the first
    version: int
    metadata: Mapping[str, Value]  # of the first file
    tensors: tuple[TensorInfo, ...]
    n_bytes_needed: int  # by headers and tensor tables
    size: int  # of the files
    reference: str | None = None  # of a model of the hub: hf:owner/repo/file.gguf

    @property
    def path(self) -> Path:
        return self.paths[0]

    @property
    def label(self) -> str:
        """What to call it before people."""
        return self.reference or self.path.name

    def text(self, key: str) -> str | None:
        """A string value; None where the file has none, or has something else there."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def strings(self, key: str) -> StringArray | None:
        value = self.metadata.get(key)
        return value if isinstance(value, StringArray) else None

    def own(self, suffix: str) -> Value | None:
        """A value under the architecture's name, as 'block_count' for llama.block_count."""
        return self.metadata.get(f"{self.architecture}.{suffix}")

    def own_integer(self, suffix: str) -> int | None:
        return self.integer(f"{self.architecture}.{suffix}")

    @property
    def architecture(self) -> str | None:
        return self.text("general.architecture")

    @property
    def kind(self) -> str | None:
        """general.type: model, adapter, imatrix, mmproj; older files do not say."""
        return self.text("general.type")

    @property
    def name(self) -> str:
        return self.text("general.name") or self.path.stem

    @property
    def n_ctx_train(self) -> int | None:
        return self.own_integer("context_length")

    @property
    def n_embd(self) -> int | None:
        return self.own_integer("embedding_length")

    @property
    def n_layers(self) -> int | None:
        return self.own_integer("block_count")

    @property
    def n_vocab(self) -> int | None:
        tokens = self.strings("tokenizer.ggml.tokens")
        return len(tokens) if tokens is not None else self.own_integer("vocab_size")

    @property
    def quantisation(self) -> str:
        """The name of the file type, as Q4_K_M; where the file does not say, the commonest tensor type."""
        named = FILE_TYPES.get(self.integer("general.file_type") or 0, "")
        if named and "general.file_type" in self.metadata:
            return named
        types = Counter(tensor.type_name for tensor in self.tensors)
        return types.most_common(1)[0][0] if types else "none"

    @property
    def n_parameters(self) -> int:
        return sum(tensor.n_elements for tensor in self.tensors)

    @property
    def n_tensor_bytes(self) -> int:
        return sum(tensor.n_bytes for tensor in self.tensors)

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template")
