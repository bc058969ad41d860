"""The sizes of what llama.cpp allocates for a context: cache, graph, output, work space. In bytes."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.gguf.constants import TENSOR_TYPES
from specdec_cli.pairing.shape import Layer, Shape

CACHE_STEP = 256  # llama.cpp rounds a context up to this many tokens
_F32 = 4
_BLOCKS = {name: (n_elements, n_bytes) for name, n_elements, n_bytes in TENSOR_TYPES.values()}


@dataclass(frozen=True, slots=True)
class ContextSize:
    """The settings of a context that decide its size."""

    n_ctx: int  # tokens; 0 = the trained length
    n_padding: int = 0  # tokens more, for throw-away tokens
    n_batch: int = 2048
    n_ubatch: int = 512
    n_rows: int = 1  # rows of logits that one pass may ask for
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attn: bool = True


def n_asked(shape: Shape, size: ContextSize) -> int:
    """Tokens that a run may hold."""
    return size.n_ctx or shape.n_ctx_train or 0


def n_cells(shape: Shape, size: ContextSize) -> int:
    """Tokens that the cache holds."""
    return -(-(n_asked(shape, size) + size.n_padding) // CACHE_STEP) * CACHE_STEP


def cache_bytes(shape: Shape, size: ContextSize) -> tuple[int, ...]:
    """K, V and state of each layer.

    A window changes nothing: the cache of such a layer is as long as the others', so that it can go back.
    """
    cells = n_cells(shape, size)
    attending = [layer for layer in shape.layers if layer.attends]
    widest_v = max((layer.n_v for layer in attending), default=0)
    found = []
    for layer in shape.layers:
        n_bytes = shape.n_state * _F32 if layer.has_state else 0
        if layer.attends:
            n_bytes += cells * _row_bytes(layer.n_k, size.type_k)
            if shape.stores_v:
                # Without flash attention V lies transposed, and every layer's is as wide as the widest.
                n_bytes += cells * _row_bytes(layer.n_v if size.flash_attn else widest_v, size.type_v)
            n_bytes += cells * _row_bytes(shape.n_index, size.type_k)
        found.append(n_bytes)
    return tuple(found)


def n_pass(shape: Shape, size: ContextSize) -> int:
    """Tokens that one pass holds at most."""
    return max(min(size.n_ubatch, size.n_batch, n_cells(shape, size)), 1)


def graph_bytes(shape: Shape, size: ContextSize) -> int:
    """The buffer for a pass's intermediate results: llama.cpp's compute buffer.

    Each part of the graph reuses the memory of the parts before, so the largest decides. What is alive in a part was read from
    llama.cpp's graphs and allocator.
    """
    n_tokens, cells = n_pass(shape, size), n_cells(shape, size)
    parts = [_feed_forward(shape), _stateful(shape) if any(layer.has_state for layer in shape.layers) else 0]
    mask, scores = 0, 0
    attending = [layer for layer in shape.layers if layer.attends]
    if attending:
        n_heads = max(layer.n_heads for layer in attending)
        parts.append(max(_attention(shape, layer, size.flash_attn) for layer in attending))
        mask = cells * n_tokens * (2 if size.flash_attn else _F32) * (2 if shape.windowed else 1)
        scores = 0 if size.flash_attn else cells * n_tokens * n_heads * _F32
    inside = [parts[0], parts[1], *(part + scores // (n_tokens * _F32) for part in parts[2:])]
    output = 4 * shape.n_embd * n_tokens * _F32 + shape.n_vocab * min(size.n_rows, n_tokens) * _F32
    return mask + max(max(inside) * n_tokens * _F32, output)


def input_bytes(shape: Shape, size: ContextSize) -> int:
    """What the processor's part of a graph takes when every layer is on a GPU: embeddings and masks."""
    n_tokens = n_pass(shape, size)
    mask = n_cells(shape, size) * n_tokens * (2 if size.flash_attn else _F32) * (2 if shape.windowed else 1)
    return shape.n_embd * n_tokens * _F32 + mask


def work_bytes(shape: Shape, size: ContextSize, weight_type: str) -> int:
    """The processor's work space: the widest activations, converted to the type that the weights are multiplied with."""
    width = max([shape.n_embd, shape.n_ff_experts, *(layer.n_ff for layer in shape.layers)])
    n_elements, n_bytes = {"F32": (1, 0), "F16": (1, 2), "BF16": (1, 2)}.get(weight_type, _BLOCKS["Q8_1"])
    return n_pass(shape, size) * width * n_bytes // n_elements


def output_bytes(shape: Shape, size: ContextSize) -> int:
    """The rows of logits that a pass hands out."""
    return shape.n_vocab * size.n_rows * _F32


def _row_bytes(n: int, type_name: str) -> int:
    n_elements, n_bytes = _BLOCKS[type_name.upper()]
    return -(-n // n_elements) * n_bytes


def _feed_forward(shape: Shape) -> int:
    """Elements a token: gate, up and their product, or the product and what each expert makes of it; and the residual."""
    dense = max((layer.n_ff for layer in shape.layers), default=0)
    experts = max(3 * shape.n_ff_experts, shape.n_ff_experts + shape.n_embd * shape.n_experts_used)
    return max(3 * dense, experts) + 4 * shape.n_embd


def _stateful(shape: Shape) -> int:
    """Elements a token in a layer that keeps a state: an estimate, these graphs differ much."""
    return 8 * shape.n_inner + 4 * shape.n_embd


def _attention(shape: Shape, layer: Layer, flash_attn: bool) -> int:
    """Elements a token: queries, keys, values, and what is made of them."""
    n_q = layer.n_heads * layer.head_k
    if flash_attn:
        return 2 * shape.n_embd + 3 * n_q + layer.n_k + layer.n_v
    return 5 * n_q + layer.n_k + layer.n_v
