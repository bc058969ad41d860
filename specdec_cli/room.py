"""The memory plan for a target and a draft on this machine: from the options they are loaded with, before they are."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import psutil

from specdec_cli.gguf.header import Header
from specdec_cli.llama import library
from specdec_cli.llama.options import ALL_LAYERS, ContextOptions, FlashAttention, ModelOptions, SplitMode
from specdec_cli.pairing.buffers import ContextSize
from specdec_cli.pairing.memory import plan
from specdec_cli.pairing.planned import Asked, Gpu, Machine, Plan

# Python, numpy, llama.cpp's code and its small buffers: the peak of a run, less everything that the plan counts. Measured.
_N_PROGRAM = 66_000_000


def plan_for(
    target: Header,
    target_model: ModelOptions,
    target_context: ContextOptions,
    draft: Header | None = None,
    draft_model: ModelOptions | None = None,
    draft_context: ContextOptions | None = None,
    n_rows: int = 1,
    *,
    exact: bool = False,
    machine: Machine | None = None,
) -> Plan:
    """What they take and whether it fits. n_rows: rows of logits that a pass of the target may ask for.

    exact: with --exact the target's context holds as many throw-away tokens more. machine: this one if not given.
    """
    asked = _asked(target_model, target_context, n_rows)
    if exact:
        asked = replace(asked, context=replace(asked.context, n_padding=n_rows - 1))
    here = machine or this_machine()
    if draft is None or draft_model is None:
        return plan(target, asked, here)
    n_ctx = target_context.n_ctx or target.n_ctx_train or 0
    beside = replace(draft_context or target_context, n_ctx=n_ctx)
    return plan(target, asked, here, draft, _asked(draft_model, beside, n_rows=1))


def this_machine() -> Machine:
    """What is free now. What this program holds already counts as free, since the plan counts it as needed."""
    process = psutil.Process().memory_info().rss
    left = [psutil.virtual_memory().available]
    limited = limit_left()
    if limited is not None:
        left.append(limited)
    shared = sys.platform == "darwin" and platform.machine() == "arm64"
    return Machine(
        n_free=max(min(left), 0) + min(process, _N_PROGRAM),
        features=library.cpu_features(),
        gpus=tuple(Gpu(device.name, device.memory_free, shared) for device in library.devices() if device.is_gpu),
        n_program=_N_PROGRAM,
    )


def beside(plan: Plan, then: Machine) -> Machine:
    """What there is to fit into while the models of a plan are open: what they hold counts as free, since a plan counts it as
    needed. No more than there was before they were opened (then): what a plan allows for is not all taken at once.
    """
    now = this_machine()
    held = sum(model.n_host_fixed for model in plan.models)
    on_gpus = plan.on_gpus
    left = {gpu.name: gpu.n_free + on_gpus.get(gpu.name, (0, 0))[0] for gpu in now.gpus}
    return replace(
        now,
        n_free=min(then.n_free, now.n_free + held),
        gpus=tuple(replace(gpu, n_free=min(gpu.n_free, left.get(gpu.name, 0))) for gpu in then.gpus),
    )


def limit_left(membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the limits of containers and services leave, in bytes; None where there is no limit.

    Cached pages of files count as left: the system drops them when memory is needed. Linux only; elsewhere there are no limits.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    left = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            names, prefix, mount = ("memory.max", "memory.current"), "", root
        elif "memory" in controllers.split(","):
            names, prefix, mount = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_", root / "memory"
        else:
            continue
        inner = PurePosixPath(path.lstrip("/"))
        for folder in (inner, *inner.parents):
            n = _left_in(mount / folder, *names, prefix)
            if n is not None:
                left.append(n)
    return min(left, default=None)


def _left_in(folder: Path, limit_name: str, used_name: str, prefix: str) -> int | None:
    try:
        limit = (folder / limit_name).read_text(encoding="utf-8").strip()
        if not limit.isdecimal():
            return None
        used = int((folder / used_name).read_text(encoding="utf-8"))
        entries = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="utf-8").splitlines())
        cached = sum(int(entries.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    except (OSError, ValueError):
        return None
    return max(int(limit) - max(used - cached, 0), 0)


def _asked(model: ModelOptions, context: ContextOptions, n_rows: int) -> Asked:
    return Asked(
        context=ContextSize(
            n_ctx=context.n_ctx,
            n_batch=context.n_batch,
            n_ubatch=context.n_ubatch,
            n_rows=min(n_rows, context.n_batch),
            type_k=context.type_k.value,
            type_v=context.type_v.value,
            flash_attn=context.flash_attn is not FlashAttention.OFF,
        ),
        n_gpu_layers=sys.maxsize if model.n_gpu_layers == ALL_LAYERS else model.n_gpu_layers,
        devices=_devices(model),
        tensor_split=model.tensor_split,
        overrides=model.override_tensor,
        mmap=model.mmap,
        mlock=model.mlock,
        n_adapters=sum(lora.path.stat().st_size for lora in model.lora if lora.path.is_file()),
    )


def _devices(model: ModelOptions) -> tuple[str, ...] | None:
    """The GPUs that a model may use; None: all."""
    if model.devices == ("none",):
        return ()
    names = model.devices or tuple(device.name for device in library.devices() if device.is_gpu)
    if model.split_mode is SplitMode.NONE:
        return names[model.main_gpu : model.main_gpu + 1]
    return model.devices or None
