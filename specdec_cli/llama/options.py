"""What can be set for a model and for a context: plain data, importable without llama_cpp."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class FlashAttention(StrEnum):
    AUTO = "auto"
    ON = "on"
    OFF = "off"


class CacheType(StrEnum):
    """Types that llama.cpp accepts for the K and V cache."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_1 = "q4_1"
    IQ4_NL = "iq4_nl"
    Q5_0 = "q5_0"
    Q5_1 = "q5_1"


class SplitMode(StrEnum):
    """How a model is spread over several GPUs."""

    NONE = "none"
    LAYER = "layer"
    ROW = "row"


class RopeScaling(StrEnum):
    NONE = "none"
    LINEAR = "linear"
    YARN = "yarn"


@dataclass(frozen=True, slots=True)
class Lora:
    path: Path
    scale: float = 1.0


AS_MANY_AS_FIT, ALL_LAYERS = -1, -2


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded. Names and meanings are llama.cpp's."""

    path: Path
    n_gpu_layers: int = AS_MANY_AS_FIT  # or ALL_LAYERS
    split_mode: SplitMode = SplitMode.LAYER
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    devices: tuple[str, ...] = ()  # names as llama.cpp lists them; () all, ("none",) none
    override_tensor: tuple[tuple[str, str], ...] = ()  # (pattern of tensor names, buffer type)
    mmap: bool = True
    mlock: bool = False
    override_kv: tuple[str, ...] = ()  # KEY=TYPE:VALUE
    lora: tuple[Lora, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a context is made. Names and meanings are llama.cpp's."""

    n_ctx: int = 4096  # tokens; 0 = the trained length
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = 0  # 0: one for each physical core
    n_threads_batch: int = 0  # 0: as n_threads
    flash_attn: FlashAttention = FlashAttention.AUTO
    type_k: CacheType = CacheType.F16
    type_v: CacheType = CacheType.F16
    rope_scaling: RopeScaling | None = None  # None: from the model
    rope_scale: float | None = None  # context scaling factor; expands the context by it
    rope_freq_base: float = 0.0  # 0: from the model
    rope_freq_scale: float = 0.0  # 0: from the model
    yarn_orig_ctx: int = 0  # 0: from the model
    yarn_ext_factor: float = -1.0  # negative: from the model
    yarn_attn_factor: float = -1.0
    yarn_beta_slow: float = -1.0
    yarn_beta_fast: float = -1.0
