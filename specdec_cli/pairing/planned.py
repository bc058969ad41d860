"""What a memory plan says: what each model takes of each device, what is free, and what fits. Bytes throughout."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

from specdec_cli.gguf.constants import Role
from specdec_cli.pairing.buffers import ContextSize
from specdec_cli.pairing.weights import HOST

AS_MANY_AS_FIT = -1


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    n_free: int
    shared: bool = False  # it works in the host's memory


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to fit into. Bytes."""

    n_free: int  # host memory that this program may hold in all, what it holds already included
    features: frozenset[str]  # the processor's, as llama.cpp names them
    gpus: tuple[Gpu, ...] = ()
    n_program: int = 0  # what the program takes before any model


@dataclass(frozen=True, slots=True)
class Asked:
    """How a model is to be loaded and its context made, in plain numbers."""

    context: ContextSize
    n_gpu_layers: int = AS_MANY_AS_FIT
    devices: tuple[str, ...] | None = None  # names of GPUs; None: all
    tensor_split: tuple[float, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()  # (pattern of tensor names, buffer type)
    mmap: bool = True
    mlock: bool = False
    n_adapters: int = 0  # bytes of LoRA files


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model takes of one device, in bytes."""

    mapped: int = 0  # weights in pages of the file: the system can drop these and read them again
    loaded: int = 0  # weights that cannot be dropped
    repacked: int = 0  # second copies of weights, for the processor's kernels
    cache: int = 0
    compute: int = 0
    output: int = 0
    vocabulary: int = 0

    @property
    def n_fixed(self) -> int:
        """What cannot be dropped."""
        return self.total - self.mapped

    @property
    def weights(self) -> int:
        return self.mapped + self.loaded + self.repacked

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute + self.output + self.vocabulary


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """What one model takes. on: device -> parts; the host is always there."""

    role: Role
    name: str
    n_ctx: int
    n_ctx_train: int | None
    n_gpu_layers: int  # as many as were asked for, or fit; the output counts as one
    n_layers: int  # with the output
    on: dict[str, Parts]
    flash_attn: bool
    quantised_cache: bool
    in_host: tuple[str, ...] = (HOST,)  # devices whose memory is the host's

    @property
    def host(self) -> Parts:
        return self.on[HOST]

    @property
    def n_host(self) -> int:
        """What it takes of the host's memory."""
        return sum(self.on[device].total for device in self.in_host)

    @property
    def n_host_fixed(self) -> int:
        """The part of it that cannot be dropped."""
        return sum(self.on[device].n_fixed for device in self.in_host)


@dataclass(frozen=True, slots=True)
class Plan:
    """What everything takes, and whether it fits. Bytes of host memory where nothing else is said."""

    models: tuple[ModelPlan, ...]
    machine: Machine
    fits: bool  # the target alone, without what can be dropped
    draft_fits: bool | None  # beside the target; None without a draft
    rereads: bool  # the target's weights do not stay in memory: they are read from the file again and again
    largest_n_ctx: int | None  # that fits for all models, at most the trained length; None: not even the shortest
    largest_quantised_n_ctx: int | None  # the same with a Q8_0 cache
    n_gpu_layers_that_fit: int | None  # for the target, where it asks for more
    sentences: tuple[str, ...] = ()

    @property
    def n_needed(self) -> int:
        """At the peak, with the pages of the files."""
        return self.machine.n_program + sum(model.n_host for model in self.models)

    @property
    def n_fixed(self) -> int:
        """The part of it that cannot be dropped."""
        return self.machine.n_program + sum(model.n_host_fixed for model in self.models)

    @property
    def n_target(self) -> int:
        """What the target alone needs, with the pages of its file."""
        return self.machine.n_program + self.target.n_host

    @property
    def n_free(self) -> int:
        return self.machine.n_free

    @property
    def target(self) -> ModelPlan:
        return self.models[0]

    @property
    def draft(self) -> ModelPlan | None:
        return self.models[1] if len(self.models) > 1 else None

    @property
    def on_gpus(self) -> dict[str, tuple[int, int]]:
        """GPU -> bytes needed, bytes free; those in use only."""
        needed: Counter[str] = Counter()
        for model in self.models:
            needed.update({device: parts.total for device, parts in model.on.items() if device != HOST})
        return {gpu.name: (needed[gpu.name], gpu.n_free) for gpu in self.machine.gpus if needed[gpu.name]}


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain values; docs/json/memory.md describes them."""
    return {
        "fits": plan.fits,
        "draft_fits": plan.draft_fits,
        "rereads": plan.rereads,
        "needed": plan.n_needed,
        "fixed": plan.n_fixed,
        "free": plan.n_free,
        "program": plan.machine.n_program,
        "gpus": [{"name": name, "needed": needed, "free": free} for name, (needed, free) in plan.on_gpus.items()],
        "largest_context": plan.largest_n_ctx,
        "largest_context_q8_0": plan.largest_quantised_n_ctx,
        "sentences": list(plan.sentences),
        "models": [
            {
                "role": model.role,
                "name": model.name,
                "context": model.n_ctx,
                "trained_context": model.n_ctx_train,
                "layers": model.n_layers,
                "gpu_layers": model.n_gpu_layers,
                "devices": [
                    {"name": device, **dataclasses.asdict(parts), "total": parts.total} for device, parts in model.on.items()
                ],
            }
            for model in plan.models
        ],
    }
