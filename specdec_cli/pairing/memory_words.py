"""What a person is told about a memory plan: the problem first, then the numbers, then what to change."""

from __future__ import annotations

from specdec_cli.errors import ModelFileError
from specdec_cli.pairing.planned import ModelPlan, Plan
from specdec_cli.pairing.weights import HOST
from specdec_cli.units import size


def sentences(plan: Plan) -> tuple[str, ...]:
    """Problems, then what is needed and free, the split over devices, and the longest context."""
    problem = problem_of(plan)
    found = [f"{problem.what} {problem.why}"] if problem is not None else []
    if plan.fits and plan.rereads:
        found.append(
            f"The weights of {plan.target.name} do not stay in memory: it needs {size(plan.n_target)}, and {size(plan.n_free)}"
            " are free. They will be read from disk again and again, which is slow."
        )
    found.append(f"Memory: {size(plan.n_needed)} needed, {size(plan.n_free)} free.")
    found += [f"{name}: {size(needed)} needed, {size(free)} free." for name, (needed, free) in plan.on_gpus.items()]
    found += [_split(model) for model in plan.models if model.n_gpu_layers]
    found.append(_longest(plan))
    return tuple(found)


def problem_of(plan: Plan) -> ModelFileError | None:
    """Why they cannot be loaded, if they cannot."""
    return target_problem(plan) or draft_problem(plan)


def target_problem(plan: Plan) -> ModelFileError | None:
    """Why the target cannot be loaded, even without a draft."""
    if plan.fits:
        return None
    target = plan.target
    full = _full_gpus(plan, {name: parts.total for name, parts in target.on.items()})
    if full:
        fix = (
            f"Use -ngl {plan.n_gpu_layers_that_fit}"
            if plan.n_gpu_layers_that_fit is not None
            else "Use fewer GPU layers (-ngl)"
        )
        return ModelFileError(f"The target {target.name} does not fit on the GPU.", full, f"{fix}, or a smaller quantisation.")
    parts = target.host
    biggest = max((parts.cache, "its cache"), (parts.loaded + parts.repacked, "weights"), (parts.compute, "its compute buffer"))
    return ModelFileError(
        f"The target {target.name} does not fit in memory.",
        f"With -c {target.n_ctx} it needs {size(plan.machine.n_program + target.n_host_fixed)}"
        f" ({biggest[1]} {size(biggest[0])}), and {size(plan.n_free)} are free.",
        _fix(plan, "a smaller quantisation"),
    )


def draft_problem(plan: Plan) -> ModelFileError | None:
    """Why the draft cannot be loaded beside the target."""
    draft = plan.draft
    if draft is None or plan.draft_fits is not False or not plan.fits:
        return None
    full = _full_gpus(plan, {name: needed for name, (needed, _) in plan.on_gpus.items()})
    what = f"The draft {draft.name} does not fit beside the target {plan.target.name}."
    if full:
        return ModelFileError(what, full, "Use fewer of its layers on the GPU (-ngld), a smaller draft, or --draft ngram.")
    why = (
        f"Together they need {size(plan.n_needed)}, of which the draft takes"
        f" {size(draft.n_host)}, and {size(plan.n_free)} are free."
    )
    return ModelFileError(what, why, _fix(plan, "a smaller draft, or --draft ngram, which needs no second model"))


def _full_gpus(plan: Plan, needed: dict[str, int]) -> str:
    """The GPUs that do not hold so much."""
    free = {gpu.name: gpu.n_free for gpu in plan.machine.gpus}
    return " ".join(
        f"{name} has {size(free[name])} free, and {size(n)} are needed."
        for name, n in needed.items()
        if name != HOST and n > free[name]
    )


def _fix(plan: Plan, otherwise: str) -> str:
    """What to change, with the numbers that fit."""
    n_ctx = max(model.n_ctx for model in plan.models)
    choices = []
    shorter, quantised = plan.largest_n_ctx or 0, plan.largest_quantised_n_ctx or 0
    if 0 < shorter < n_ctx:
        choices.append(f"-c {shorter}")
    if quantised > shorter and all(model.flash_attn and not model.quantised_cache for model in plan.models):
        flags = "-ctk q8_0 -ctv q8_0" + (" -ctkd q8_0 -ctvd q8_0" if plan.draft is not None else "")
        choices.append(flags + ("" if quantised >= n_ctx else f" with -c {quantised}"))
    use = f"se {', or '.join([*choices, otherwise])}."
    copies = any(model.host.loaded > model.host.mapped for model in plan.models)
    return f"Leave --no-mmap and --mlock out, or u{use}" if copies else f"U{use}"


def _split(model: ModelPlan) -> str:
    names = ", ".join(name for name in model.on if name != HOST)
    return f"{model.n_gpu_layers} of {model.n_layers} layers of the {model.role} on {names}."


def _longest(plan: Plan) -> str:
    if plan.largest_n_ctx is None:
        return "No context fits with these settings, however short."
    trained = min((model.n_ctx_train for model in plan.models if model.n_ctx_train), default=None)
    if trained is not None and plan.largest_n_ctx >= trained - trained % 256:
        return f"Any context up to the trained length of {trained:,} tokens fits."
    return f"The longest context that fits is {plan.largest_n_ctx:,} tokens (-c {plan.largest_n_ctx})."
