"""From settings to the options of models, contexts and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import SETTINGS

_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"  # LLM_FFN_EXPS_REGEX of llama.cpp's common.h
_CPU = "CPU"  # the name of the CPU's buffer type


class SamplingValues(TypedDict):
    """The fields of SamplingParams, which lives beyond a heavy import."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int


def model_options(settings: Settings, path: Path, draft: bool = False) -> ModelOptions:
    """How the target, or the draft, is loaded from a file. Adapters are the target's alone."""
    values = _fields(settings, "model", draft)
    suffix = "_draft" if draft else ""
    overrides = settings.value(f"override_tensor{suffix}", tuple)
    if settings.value(f"cpu_moe{suffix}", bool):
        overrides += ((_EXPERTS, _CPU),)
    layers = range(settings.value(f"n_cpu_moe{suffix}", int))
    values["override_tensor"] = overrides + tuple((rf"blk\.{layer}{_EXPERTS}", _CPU) for layer in layers)
    values["lora"] = () if draft else settings.value("lora", tuple) + settings.value("lora_scaled", tuple)
    return ModelOptions(path=path, **values)


def context_options(settings: Settings, draft: bool = False) -> ContextOptions:
    """How the context of the target, or of the draft, is made."""
    values = _fields(settings, "context", draft)
    if draft and settings.maybe("threads_batch_draft", int) is None:
        own = settings.maybe("threads_draft", int)
        values["n_threads_batch"] = settings.value("threads_batch", int) if own is None else own
    return ContextOptions(**values)


def sampling_values(settings: Settings) -> SamplingValues:
    """The arguments of SamplingParams. Several biases of one token add up, as in llama.cpp."""
    bias: dict[int, float] = {}
    for token, size in settings.value("logit_bias", tuple):
        bias[token] = bias.get(token, 0.0) + size
    return SamplingValues(
        temperature=settings.value("temp", float),
        top_k=settings.value("top_k", int),
        top_p=settings.value("top_p", float),
        min_p=settings.value("min_p", float),
        repeat_penalty=settings.value("repeat_penalty", float),
        repeat_last_n=settings.value("repeat_last_n", int),
        presence_penalty=settings.value("presence_penalty", float),
        frequency_penalty=settings.value("frequency_penalty", float),
        logit_bias=bias,
        seed=settings.value("seed", int),
    )


def _fields(settings: Settings, owner: str, draft: bool) -> dict[str, Any]:
    """The fields that settings fill directly; the draft's own settings replace the target's where they are set."""
    values: dict[str, Any] = {}
    for setting in SETTINGS.values():  # those of the draft stand behind those of the target
        where, _, field = setting.fills.partition(".")
        value = settings.decided[setting.name].value
        if where == owner and (not setting.draft or (draft and value is not None)):
            values[field] = value
    return values
