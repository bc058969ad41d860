"""Whether a target and a draft fit in memory, computed from their headers before anything is loaded."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.pairing import buffers, memory_words
from specdec_cli.pairing.buffers import CACHE_STEP
from specdec_cli.pairing.planned import AS_MANY_AS_FIT, Asked, Gpu, Machine, ModelPlan, Parts, Plan
from specdec_cli.pairing.shape import Shape, shape_of
from specdec_cli.pairing.weights import HOST, Placed, Placement, place

_GPU_RESERVE = 1 << 30  # what llama.cpp's own fitting leaves free on each GPU
# llama.cpp's vocabulary, in bytes for each token and each merge; measured on vocabularies of 49, 152 and 262 thousand.
_TOKEN_BYTES, _MERGE_BYTES = 158, 126
_LARGEST_CONTEXT = 1 << 21  # looked for where a file does not say its trained length
_WIDE = frozenset({"f32", "f16", "bf16"})
_ROLES: tuple[Role, Role] = ("target", "draft")
_Read = tuple[Header, Shape, Asked]


@dataclass(frozen=True, slots=True)
class _Judged:
    models: tuple[ModelPlan, ...]
    fits: bool
    draft_fits: bool | None
    rereads: bool
    all_stay: bool  # all models, with what can be dropped

    @property
    def all_fit(self) -> bool:
        return self.fits and self.draft_fits is not False


def plan(target: Header, asked: Asked, machine: Machine, draft: Header | None = None, draft_asked: Asked | None = None) -> Plan:
    """The memory plan of a target, and of a draft beside it."""
    read = [(target, shape_of(target), asked)]
    if draft is not None:
        read.append((draft, shape_of(draft), draft_asked or asked))
    judged = _judge(read, machine)
    # Where the target does not even fit alone, the question is what it would take.
    fitted = read if judged.fits else read[:1]
    bare = Plan(
        models=judged.models,
        machine=machine,
        fits=judged.fits,
        draft_fits=judged.draft_fits,
        rereads=judged.rereads,
        largest_n_ctx=_largest(fitted, machine, {}),
        largest_quantised_n_ctx=_largest(fitted, machine, {"type_k": "q8_0", "type_v": "q8_0"}),
        n_gpu_layers_that_fit=_fewer_layers(read[0], machine),
    )
    return dataclasses.replace(bare, sentences=memory_words.sentences(bare))


def require_room(plan: Plan) -> None:
    """Refuse what cannot fit: the target, or the draft beside it. Raises ModelFileError."""
    problem = memory_words.problem_of(plan)
    if problem is not None:
        raise problem


def _fewer_layers(read: _Read, machine: Machine) -> int | None:
    """How many layers fit on the GPUs, where more were asked for."""
    header, shape, asked = read
    if asked.n_gpu_layers <= 0 or not _gpus(asked, machine):
        return None
    fitting = _model(header, shape, dataclasses.replace(asked, n_gpu_layers=AS_MANY_AS_FIT), machine, "target", {})
    return fitting.n_gpu_layers if fitting.n_gpu_layers < min(asked.n_gpu_layers, shape.n_offloadable) else None


def _judge(read: Sequence[_Read], machine: Machine) -> _Judged:
    """The models in order: the draft gets what the target leaves of the GPUs."""
    taken: Counter[str] = Counter()
    models = []
    for (header, shape, asked), role in zip(read, _ROLES, strict=False):
        model = _model(header, shape, asked, machine, role, taken)
        taken.update({device: parts.total for device, parts in model.on.items() if device != HOST})
        models.append(model)
    free = {gpu.name: gpu.n_free for gpu in machine.gpus}
    on_gpu = {device: parts.total for device, parts in models[0].on.items() if device != HOST}
    room = machine.n_free - machine.n_program
    gpus_fit = all(n <= free[device] for device, n in taken.items())
    fixed_fit = gpus_fit and sum(model.n_host_fixed for model in models) <= room
    all_stay = gpus_fit and sum(model.n_host for model in models) <= room
    # A target whose weights alone are too large is read from disk at every pass, and a draft saves such passes. Any other
    # target has weights that stay in memory, and the draft may not drive them out.
    is_too_large = models[0].host.weights > room
    return _Judged(
        models=tuple(models),
        fits=models[0].n_host_fixed <= room and all(n <= free[device] for device, n in on_gpu.items()),
        draft_fits=(fixed_fit if is_too_large else all_stay) if len(models) > 1 else None,
        rereads=models[0].n_host > room,
        all_stay=all_stay,
    )


def _model(header: Header, shape: Shape, asked: Asked, machine: Machine, role: Role, taken: Mapping[str, int]) -> ModelPlan:
    """One model's parts. taken: GPU -> bytes that other models take there."""
    gpus = [dataclasses.replace(gpu, n_free=gpu.n_free - taken.get(gpu.name, 0)) for gpu in _gpus(asked, machine)]

    def with_layers(n: int) -> dict[str, Parts]:
        return _parts(header, shape, asked, machine.features, gpus, n)

    n_layers = min(asked.n_gpu_layers, shape.n_offloadable) if gpus else 0
    if n_layers < 0:
        n_layers = _most(
            shape.n_offloadable,
            lambda n: all(parts.total + _GPU_RESERVE <= gpu.n_free for gpu in gpus if (parts := with_layers(n).get(gpu.name))),
        )
    context, on = asked.context, with_layers(n_layers)
    return ModelPlan(
        role=role,
        name=header.label,
        n_ctx=buffers.n_asked(shape, context),
        n_ctx_train=shape.n_ctx_train,
        n_gpu_layers=n_layers,
        n_layers=shape.n_offloadable,
        on=on,
        flash_attn=context.flash_attn,
        quantised_cache=context.type_k not in _WIDE and context.type_v not in _WIDE,
        in_host=(HOST, *(gpu.name for gpu in gpus if gpu.shared and gpu.name in on)),
    )


def _parts(
    header: Header, shape: Shape, asked: Asked, features: frozenset[str], gpus: Sequence[Gpu], n_gpu_layers: int
) -> dict[str, Parts]:
    names = tuple(gpu.name for gpu in gpus) if n_gpu_layers else ()
    shares = asked.tensor_split[: len(names)]
    if len(shares) < len(names) or not any(shares):
        shares = tuple(float(max(gpu.n_free, 1)) for gpu in gpus)
    placement = Placement(names, shares, n_gpu_layers, len(shape.layers))
    shared = frozenset(gpu.name for gpu in gpus if gpu.shared)
    weights = place(header, placement, asked.overrides, features, mapped=asked.mmap, pinned=asked.mlock, shared=shared)
    caches: Counter[str] = Counter()
    for i, n_bytes in enumerate(buffers.cache_bytes(shape, asked.context)):
        caches[placement.of(i)] += n_bytes
    busy = {placement.of(i) for i in range(len(shape.layers) + 1)}
    graph = buffers.graph_bytes(shape, asked.context)
    found = {}
    for device, placed in weights.items():
        compute = graph if device in busy else 0
        if device == HOST:
            work = buffers.work_bytes(shape, asked.context, _commonest_type(header))
            compute = compute + work if HOST in busy else buffers.input_bytes(shape, asked.context)
        if device == HOST or device in busy or placed != Placed():
            found[device] = Parts(placed.mapped, placed.loaded, placed.repacked, caches[device], compute)
    found[HOST] = dataclasses.replace(
        found[HOST],
        loaded=found[HOST].loaded + asked.n_adapters,
        output=buffers.output_bytes(shape, asked.context),
        vocabulary=shape.n_vocab * _TOKEN_BYTES + shape.n_merges * _MERGE_BYTES,
    )
    return found


def _gpus(asked: Asked, machine: Machine) -> list[Gpu]:
    if asked.devices is None:
        return list(machine.gpus)
    by_name = {gpu.name: gpu for gpu in machine.gpus}
    return [by_name[name] for name in asked.devices if name in by_name]


def _commonest_type(header: Header) -> str:
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[tensor.type_name] += tensor.n_bytes
    return sizes.most_common(1)[0][0] if sizes else "F32"


def _largest(read: Sequence[_Read], machine: Machine, changes: dict[str, str]) -> int | None:
    """The largest context that fits, in steps of llama.cpp's rounding; with all weights in memory, if there is one."""
    longest = min((shape.n_ctx_train for _, shape, _ in read if shape.n_ctx_train), default=_LARGEST_CONTEXT)

    def judge(n_steps: int) -> _Judged:
        context = {"n_ctx": min(n_steps * CACHE_STEP, longest), **changes}
        changed = [
            (header, shape, dataclasses.replace(asked, context=dataclasses.replace(asked.context, **context)))  # type: ignore[arg-type]
            for header, shape, asked in read
        ]
        return _judge(changed, machine)

    n_steps = -(-longest // CACHE_STEP)
    found = _most(n_steps, lambda n: judge(n).all_stay) or _most(n_steps, lambda n: judge(n).all_fit)
    return min(found * CACHE_STEP, longest) if found and judge(found).all_fit else None


def _most(n: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to n that fits; 0 is taken to fit."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
