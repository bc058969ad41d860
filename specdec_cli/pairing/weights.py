"""Where llama.cpp puts each tensor: in which device's memory, mapped from the file or copied, and repacked or not."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import TensorInfo

HOST = "host"
_BLOCK = re.compile(r"blk\.(\d+)\.")
_OUTPUT = re.compile(r"(output|output_norm|output_norm_enc|cls|dense_\d+)\b")
_LOOKED_UP = re.compile(r"(token_embd|per_layer_token_embd|position_embd|token_types)\b")

# Type -> (processor features, rows come in multiples of): the first that holds repacks a tensor. From ggml's repack.cpp; AMX
# (an own kind of buffer) comes before all others.
_DOT, _INT8 = frozenset({"NEON", "DOTPROD"}), frozenset({"NEON", "MATMUL_INT8"})
_AVX2, _AVX512 = frozenset({"AVX2"}), frozenset({"AVX512"})
_SVE = frozenset({"SVE", "MATMUL_INT8", "SVE_CNT=32"})
_RISCV = frozenset({"RISCV_V", "RVV_VLEN=32"})
_AMX = frozenset({"AMX_INT8", "AVX512_VNNI"})
_Rules = tuple[tuple[frozenset[str], int], ...]
_REPACKED: Mapping[str, _Rules] = {
    "Q1_0": ((_INT8, 4), (_DOT, 4)),
    "Q2_K": ((_AVX512, 8), (_RISCV, 16)),
    "Q4_0": ((_AVX2, 8), (_SVE, 8), (_INT8, 4), (_DOT, 4), (frozenset({"VXE"}), 4), (_RISCV, 16)),
    "Q4_K": ((_AVX2, 8), (_INT8, 8), (_DOT, 8), (_RISCV, 16)),
    "Q5_K": ((_INT8, 8), (_DOT, 8)),
    "Q6_K": ((_INT8, 8), (_DOT, 8)),
    "Q8_0": ((_INT8, 4), (_DOT, 4), (_RISCV, 16)),
    "IQ4_NL": ((_AVX2, 8), (_DOT, 4), (_RISCV, 16)),
    "MXFP4": ((_AVX2, 8), (_DOT, 4)),
}
_AMX_TYPES = frozenset({"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"})
_AMX_ROWS = 32


@dataclass(frozen=True, slots=True)
class Placed:
    """The weights in one device's memory, in bytes."""

    mapped: int = 0  # pages of the file, which the system can drop and read again
    loaded: int = 0
    repacked: int = 0  # a second copy, in the order that the processor's kernels want


@dataclass(frozen=True, slots=True)
class Placement:
    """How the blocks of a model are spread. devices: GPUs in use, in llama.cpp's order."""

    devices: tuple[str, ...]
    splits: tuple[float, ...]  # shares of the devices
    n_gpu_layers: int  # blocks, and one for the output, counted from the end
    n_layers: int

    def of(self, layer: int) -> str:
        """The device of a block; the output counts as block n_layers."""
        n_on = min(self.n_gpu_layers, self.n_layers + 1) if self.devices else 0
        start = self.n_layers + 1 - n_on
        if layer < start or not self.devices:
            return HOST
        ends = list(accumulate(self.splits))
        shares = [end / ends[-1] for end in ends]
        return self.devices[min(bisect_right(shares, (layer - start) / n_on), len(self.devices) - 1)]


def is_repacked(tensor: TensorInfo, features: frozenset[str], *, as_output: bool = False) -> bool:
    """Whether the processor's kernels get their own copy of a tensor in host memory.

    as_output: the tensor is the embedding, used for the output too.
    """
    n_dims = max((i + 1 for i, length in enumerate(tensor.shape) if length > 1), default=1)
    is_experts = n_dims == 3 and "_exps" in tensor.name
    if not (n_dims == 2 or is_experts) or (_LOOKED_UP.match(tensor.name) and not as_output):
        return False
    n_rows = tensor.shape[1]
    if features >= _AMX and tensor.type_name in _AMX_TYPES and n_dims == 2 and n_rows % _AMX_ROWS == 0:
        return True
    rules = _REPACKED.get(tensor.type_name, ()) if "REPACK" in features else ()
    return any(features >= needed and n_rows % multiple == 0 for needed, multiple in rules)


def place(
    header: Header,
    placement: Placement,
    overrides: Sequence[tuple[str, str]],
    features: frozenset[str],
    *,
    mapped: bool,
    pinned: bool,
    shared: frozenset[str] = frozenset(),
) -> dict[str, Placed]:
    """Device -> its weights. overrides: (pattern of tensor names, buffer type), the first that matches counts.

    mapped: host weights stay in the file's pages. pinned: and the system may not drop these. shared: GPUs that work in the
    host's memory, and so in the same pages.
    """
    overridden = _overridden(overrides, placement.devices)
    names = {tensor.name for tensor in header.tensors}
    sums: dict[str, list[int]] = {HOST: [0, 0, 0], **{name: [0, 0, 0] for name in placement.devices}}
    for tensor in header.tensors:
        device = overridden(tensor.name) or _natural(tensor.name, placement)
        is_tied = tensor.name == "token_embd.weight" and "output.weight" not in names
        if device != HOST:
            sums[device][0 if mapped and device in shared else 1] += tensor.n_bytes
            continue
        output_device = placement.of(placement.n_layers)
        repacks = is_repacked(tensor, features, as_output=is_tied and output_device == HOST)
        if is_tied and output_device != HOST and not (mapped and output_device in shared):
            sums[output_device][1] += tensor.n_bytes
        if mapped:
            sums[HOST][0] += tensor.n_bytes
        elif not repacks or is_tied:
            sums[HOST][1] += tensor.n_bytes
        sums[HOST][2] += tensor.n_bytes if repacks else 0
    if pinned:
        sums = {device: [0, in_file + loaded, repacked] for device, (in_file, loaded, repacked) in sums.items()}
    return {device: Placed(*values) for device, values in sums.items()}


def _natural(name: str, placement: Placement) -> str:
    """Embeddings stay with the processor; blocks and the output go where the layers are."""
    if found := _BLOCK.match(name):
        return placement.of(int(found[1]))
    return placement.of(placement.n_layers) if _OUTPUT.match(name) else HOST


def _overridden(overrides: Sequence[tuple[str, str]], devices: Sequence[str]) -> Callable[[str], str | None]:
    """Tensor name -> the device that the patterns send it to. A pattern that Python cannot read matches nothing."""
    patterns = []
    for pattern, buffer in overrides:
        try:
            patterns.append((re.compile(pattern), buffer if buffer in devices else HOST))
        except re.error:
            continue
    return lambda name: next((device for pattern, device in patterns if pattern.search(name)), None)
