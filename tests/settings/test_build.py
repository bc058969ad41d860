"""Settings become the options of the target, of the draft, and of the sampling."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.llama.options import CacheType, ContextOptions, FlashAttention, Lora, ModelOptions
from specdec_cli.settings.build import context_options, model_options, sampling_values
from specdec_cli.settings.resolve import Raw, Settings, resolve

MODEL = Path("m.gguf")


def _settings(**given: Raw) -> Settings:
    return resolve(given, {})


@pytest.mark.parametrize("draft", [False, True])
def test_without_a_word_the_options_are_their_defaults(draft: bool) -> None:
    assert model_options(_settings(), MODEL, draft) == ModelOptions(MODEL)
    assert context_options(_settings(), draft) == ContextOptions()


def test_sampling_without_a_word_is_the_default_with_the_drawn_seed() -> None:
    settings = _settings()
    assert SamplingParams(**sampling_values(settings)) == SamplingParams(seed=settings.value("seed", int))


def test_what_is_set_for_the_target_arrives() -> None:
    settings = _settings(gpu_layers="7", mmap=False, tensor_split="3,1", device="CUDA0", override_kv=["a=int:1"])
    options = model_options(settings, MODEL)
    assert options == ModelOptions(
        MODEL, n_gpu_layers=7, mmap=False, tensor_split=(3.0, 1.0), devices=("CUDA0",), override_kv=("a=int:1",)
    )
    settings = _settings(ctx_size="0", flash_attn="on", cache_type_k="q8_0", yarn_beta_fast="2", threads_batch="3")
    assert context_options(settings) == ContextOptions(
        n_ctx=0, flash_attn=FlashAttention.ON, type_k=CacheType.Q8_0, yarn_beta_fast=2.0, n_threads_batch=3
    )


def test_the_draft_shares_what_it_has_no_setting_of_its_own_for() -> None:
    settings = _settings(ctx_size="512", mlock=True, main_gpu="1", rope_freq_base="10000", device="CUDA1", threads="3")
    assert model_options(settings, MODEL, draft=True).mlock
    assert model_options(settings, MODEL, draft=True).main_gpu == 1
    assert model_options(settings, MODEL, draft=True).devices == ("CUDA1",)
    draft = context_options(settings, draft=True)
    assert (draft.n_ctx, draft.rope_freq_base, draft.n_threads) == (512, 10000.0, 3)


def test_the_drafts_own_settings_are_the_drafts_alone() -> None:
    settings = _settings(gpu_layers_draft="3", device_draft="CUDA1", cache_type_k_draft="q8_0", threads_draft="1")
    assert model_options(settings, MODEL) == ModelOptions(MODEL)
    assert context_options(settings) == ContextOptions()
    assert model_options(settings, MODEL, draft=True) == ModelOptions(MODEL, n_gpu_layers=3, devices=("CUDA1",))
    assert context_options(settings, draft=True) == ContextOptions(type_k=CacheType.Q8_0, n_threads=1, n_threads_batch=1)


def test_a_quantised_cache_of_the_target_leaves_the_drafts_at_f16() -> None:
    settings = _settings(cache_type_k="q4_0", cache_type_v="q4_0", gpu_layers="5", override_tensor=["a=CPU"])
    draft = context_options(settings, draft=True)
    assert (draft.type_k, draft.type_v) == (CacheType.F16, CacheType.F16)
    assert model_options(settings, MODEL, draft=True) == ModelOptions(MODEL)


@pytest.mark.parametrize(
    ("given", "one", "wide"),
    [
        ({"threads": "4"}, 4, 0),
        ({"threads": "4", "threads_batch": "8"}, 4, 8),
        ({"threads": "4", "threads_batch": "8", "threads_draft": "2"}, 2, 2),
        ({"threads_draft": "2", "threads_batch_draft": "6"}, 2, 6),
        ({"threads_batch": "8", "threads_batch_draft": "6"}, 0, 6),
    ],
)
def test_the_drafts_threads_fall_back_as_in_llama_cpp(given: dict[str, Raw], one: int, wide: int) -> None:
    draft = context_options(resolve(given, {}), draft=True)
    assert (draft.n_threads, draft.n_threads_batch) == (one, wide)


def test_adapters_are_the_targets_alone() -> None:
    settings = _settings(lora=["a.gguf"], lora_scaled=["b.gguf:0.5"])
    assert model_options(settings, MODEL).lora == (Lora(Path("a.gguf")), Lora(Path("b.gguf"), 0.5))
    assert model_options(settings, MODEL, draft=True).lora == ()


@pytest.mark.parametrize("draft", [False, True])
def test_experts_are_kept_on_the_cpu_by_patterns(draft: bool) -> None:
    suffix = "_draft" if draft else ""
    every = model_options(_settings(**{f"cpu_moe{suffix}": True}), MODEL, draft).override_tensor
    ((pattern, buffer_type),) = every
    assert buffer_type == "CPU"
    assert re.search(pattern, "blk.31.ffn_gate_exps.weight")
    assert not re.search(pattern, "blk.31.ffn_gate.weight")
    some = model_options(_settings(**{f"n_cpu_moe{suffix}": "2"}), MODEL, draft).override_tensor
    names = [f"blk.{layer}.ffn_up_exps.weight" for layer in (0, 1, 2, 10, 11)]
    assert [any(re.search(pattern, name) for pattern, _ in some) for name in names] == [True, True, False, False, False]


def test_a_pattern_of_the_persons_own_comes_before_those_for_experts() -> None:
    options = model_options(_settings(override_tensor=["exps=CUDA0"], cpu_moe=True), MODEL)
    assert options.override_tensor[0] == ("exps", "CUDA0")


def test_biases_of_one_token_add_up() -> None:
    values = sampling_values(_settings(logit_bias=["5+1", "5+0.5", "6-inf"]))
    assert values["logit_bias"] == {5: 1.5, 6: -math.inf}
