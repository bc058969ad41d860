"""What a header says about a model that matters beside another one, first of all what a token costs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import TensorInfo

_EXPERTS = re.compile(r"_(ch)?exps(\.|$)")
_LAYER = re.compile(r"blk\.(\d+)\.")
_LOOKED_UP = ("per_layer_token_embd.weight",)  # of a table of rows by token, one row is read


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model in a few words. None where its header does not say."""

    role: Role
    label: str  # what people call the file
    place: str  # what a command calls it: a path, or a reference to the hub
    name: str
    architecture: str | None
    quantisation: str
    n_parameters: int
    n_active_parameters: int  # that a token passes through
    n_bytes: int  # of all tensors
    n_bytes_per_token: int  # read for a token, decoding plainly
    n_layers: int | None
    n_embd: int | None
    n_ctx_train: int | None
    n_vocab: int | None
    tokenizer: str | None
    pre: str | None
    has_template: bool
    n_window: int | None  # tokens of its sliding window
    n_inner_heads: int  # layers inside that predict more tokens, which plain decoding leaves out


def facts(header: Header, role: Role) -> ModelFacts:
    """The facts about one model."""
    active = [_active(header, tensor) for tensor in header.tensors]
    return ModelFacts(
        role=role,
        label=header.label,
        place=header.reference or _pasted(str(header.path)),
        name=header.name,
        architecture=header.architecture,
        quantisation=header.quantisation,
        n_parameters=header.n_parameters,
        n_active_parameters=round(sum(tensor.n_elements * share for tensor, share in zip(header.tensors, active, strict=True))),
        n_bytes=header.n_tensor_bytes,
        n_bytes_per_token=round(sum(tensor.n_bytes * share for tensor, share in zip(header.tensors, active, strict=True))),
        n_layers=header.n_layers,
        n_embd=header.n_embd,
        n_ctx_train=header.n_ctx_train,
        n_vocab=header.n_vocab,
        tokenizer=header.text("tokenizer.ggml.model"),
        pre=header.text("tokenizer.ggml.pre"),
        has_template=header.chat_template is not None,
        n_window=_largest(header, "attention.sliding_window") or None,
        n_inner_heads=_inner_heads(header),
    )


def _pasted(path: str) -> str:
    """A path as a command takes it for nothing else: no flag, no drafter's name, no hub reference."""
    return path if "/" in path or "\\" in path or (path.endswith(".gguf") and not path.startswith("-")) else f"./{path}"


def _active(header: Header, tensor: TensorInfo) -> float:
    """The share of a tensor that is read for a token."""
    if tensor.name == "token_embd.weight":
        # Where there is no output matrix, this one is it.
        return 0.0 if any(other.name == "output.weight" for other in header.tensors) else 1.0
    if tensor.name in _LOOKED_UP:
        return 0.0
    layer = _LAYER.match(tensor.name)
    if layer and header.n_layers is not None and int(layer[1]) >= header.n_layers - _inner_heads(header):
        return 0.0
    n_experts = _largest(header, "expert_count")
    if n_experts and _EXPERTS.search(tensor.name):
        return min(1.0, _largest(header, "expert_used_count") / n_experts)
    return 1.0


def _inner_heads(header: Header) -> int:
    return header.own_integer("nextn_predict_layers") or 0


def _largest(header: Header, suffix: str) -> int:
    """An integer, or the largest of one per layer."""
    value = header.own(suffix)
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
        return int(value.max())
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
