"""What a header says about the sizes that decide memory: layers, heads, states, feed-forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.gguf.header import Header
from specdec_cli.pairing.llama_build import RECURRENT

_MAX_LAYERS = 512  # llama.cpp refuses more
# Every layer of these keeps a state instead of a cache.
# One layer in so many attends, the others keep a state; the number if the file does not say.
_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4}
# Every layer of these has both.
_BOTH = frozenset({"falcon-h1"})
# Layers of these either attend, or keep a state, or have a feed-forward part and neither.
_ONE_PART_EACH = frozenset({"nemotron_h", "nemotron_h_moe"})
# The number of layers with a cache of their own, where the architecture fixes it; the others use those of earlier layers.
_OWN_CACHES = {"gemma3n": 20}
# Files of these name a window that llama.cpp does not use.
_NO_WINDOW = frozenset({"llama", "phi3", "qwen2"})


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of a model. Sizes in elements."""

    n_heads: int
    n_heads_kv: int
    head_k: int
    head_v: int
    n_ff: int
    attends: bool  # it has a cache for each token
    has_state: bool  # it keeps a state whose size is fixed

    @property
    def n_k(self) -> int:
        """Elements of K for each token."""
        return self.n_heads_kv * self.head_k

    @property
    def n_v(self) -> int:
        return self.n_heads_kv * self.head_v


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model. layers: all blocks, those that only predict further tokens included."""

    layers: tuple[Layer, ...]
    n_embd: int
    n_vocab: int
    n_merges: int
    n_ctx_train: int | None
    n_ff_experts: int  # of all experts that a token uses, together
    n_experts_used: int
    stores_v: bool  # multi-head latent attention computes V from K
    n_index: int  # elements of an indexer's key for each token
    n_state: int  # elements of a layer's state
    n_inner: int  # width of a layer that keeps a state
    windowed: bool

    @property
    def n_offloadable(self) -> int:
        """What -ngl counts: the blocks, and one for the output."""
        return len(self.layers) + 1


def shape_of(header: Header) -> Shape:
    """The sizes in a header. What a file does not say counts as nothing."""
    n_layers = min(max(header.n_layers or 0, 0), _MAX_LAYERS)
    n_embd = max(header.n_embd or 0, 0)
    n_state, n_inner = _state(header, n_embd)
    is_latent = bool(_number(header, "attention.key_length_mla") and _number(header, "attention.value_length_mla"))
    merges = header.strings("tokenizer.ggml.merges")
    n_experts_used = max(_each(header, "expert_used_count", 1, 0))
    return Shape(
        layers=_layers(header, n_layers, n_embd, n_state),
        n_embd=n_embd,
        n_vocab=header.n_vocab or 0,
        n_merges=len(merges) if merges is not None else 0,
        n_ctx_train=header.n_ctx_train,
        n_ff_experts=max(_each(header, "expert_feed_forward_length", 1, _number(header, "feed_forward_length")))
        * n_experts_used,
        n_experts_used=n_experts_used,
        stores_v=not is_latent,
        n_index=_number(header, "attention.indexer.key_length"),
        n_state=n_state,
        n_inner=n_inner,
        windowed=_number(header, "attention.sliding_window") > 0 and header.architecture not in _NO_WINDOW,
    )


def _layers(header: Header, n_layers: int, n_embd: int, n_state: int) -> tuple[Layer, ...]:
    n_heads = _each(header, "attention.head_count", n_layers, 0)
    n_heads_kv = _each(header, "attention.head_count_kv", n_layers, None) or n_heads
    n_ff = _each(header, "feed_forward_length", n_layers, 0)
    head = n_embd // n_heads[0] if n_heads[0] else 0
    head_k, head_v = _number(header, "attention.key_length", head), _number(header, "attention.value_length", head)
    window_k = _number(header, "attention.key_length_swa", head_k)
    window_v = _number(header, "attention.value_length_swa", head_v)
    in_window = _pattern(header, n_layers)
    n_own = _OWN_CACHES.get(header.architecture or "", n_layers - _number(header, "attention.shared_kv_layers"))
    n_text = min(n_own, n_layers - _number(header, "nextn_predict_layers"))
    layers = []
    for i in range(n_layers):
        attends, has_state = _part(header, i, n_heads_kv[i], n_ff[i], n_state > 0)
        layers.append(
            Layer(
                n_heads[i],
                n_heads_kv[i],
                window_k if in_window[i] else head_k,
                window_v if in_window[i] else head_v,
                n_ff[i],
                attends and i < n_text,
                has_state,
            )
        )
    return tuple(layers)


def _part(header: Header, i: int, n_heads_kv: int, n_ff: int, stateful: bool) -> tuple[bool, bool]:
    """Whether layer i has a cache, and whether it has a state."""
    architecture = header.architecture or ""
    if architecture in RECURRENT:
        return False, True
    if architecture in _BOTH:
        return True, True
    if architecture in _INTERVALS:
        attends = (i + 1) % max(_number(header, "full_attention_interval", _INTERVALS[architecture]), 1) == 0
        return attends, not attends
    alone = architecture not in _ONE_PART_EACH or n_ff == 0
    return n_heads_kv > 0 and alone, stateful and n_heads_kv == 0 and alone


def _state(header: Header, n_embd: int) -> tuple[int, int]:
    """Elements of one layer's state, and the width at which such a layer computes."""
    if head := _number(header, "wkv.head_size"):
        return (_number(header, "token_shift_count", 2) + head) * n_embd, n_embd
    if length := _number(header, "shortconv.l_cache"):
        return (length - 1) * n_embd, n_embd
    n_conv = max(_number(header, "ssm.conv_kernel") - 1, 0)
    if head := _number(header, "kda.head_dim"):
        width = head * max(_each(header, "attention.head_count", 1, 0))
        return 3 * (n_conv or 3) * width + head * width, width
    inner, state = _number(header, "ssm.inner_size"), _number(header, "ssm.state_size")
    return n_conv * (inner + 2 * _number(header, "ssm.group_count") * state) + state * inner, inner


def _pattern(header: Header, n_layers: int) -> Sequence[bool]:
    """Which layers attend to a window only. As a number n, every n-th layer attends to everything."""
    value = header.own("attention.sliding_window_pattern")
    if isinstance(value, np.ndarray):
        return [bool(entry) for entry in value[:n_layers]] + [False] * (n_layers - len(value))
    n = value if isinstance(value, int) and not isinstance(value, bool) else 1
    return [n <= 0 or i % n < n - 1 for i in range(n_layers)]


def _number(header: Header, suffix: str, otherwise: int = 0) -> int:
    """A value that is one number; the largest of several."""
    value = header.own(suffix)
    if isinstance(value, np.ndarray):
        return int(value.max()) if value.size and value.dtype.kind in "iu" else otherwise
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise


def _each(header: Header, suffix: str, n: int, otherwise: int | None) -> list[int]:
    """A value for each of n layers, given once or for each; none at all without it and without another value."""
    value = header.own(suffix)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return ([max(int(entry), 0) for entry in value] + [0] * n)[: max(n, len(value))] or [0]
    if isinstance(value, int) and not isinstance(value, bool):
        return [max(value, 0)] * max(n, 1)
    return [] if otherwise is None else [otherwise] * max(n, 1)
