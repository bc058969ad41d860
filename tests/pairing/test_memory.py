"""What fits, what is refused and what a person is told; and the plan beside llama.cpp's own figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama import library
from specdec_cli.llama.context import Context
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import CacheType, ContextOptions, FlashAttention, ModelOptions
from specdec_cli.pairing.buffers import ContextSize, cache_bytes, graph_bytes, output_bytes
from specdec_cli.pairing.memory import plan, require_room
from specdec_cli.pairing.planned import Asked, Gpu, Machine, Plan
from specdec_cli.pairing.shape import shape_of
from specdec_cli.pairing.weights import Placement, place
from tests.pairing.plans import MB, big_header, machine

ASKED = Asked(ContextSize(4096))
TARGET, DRAFT = big_header(), big_header("draft.gguf", n_layers=1, layer_mb=20)
# The target: 500 MB mapped, 67 MB of cache, 37 MB of buffers and vocabulary. The draft: 120 MB mapped, 17 + 37 MB.


def pair(free_mb: int, asked: Asked = ASKED) -> Plan:
    return plan(TARGET, asked, machine(free_mb), DRAFT, asked)


def refusal(plan: Plan) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        require_room(plan)
    return caught.value


def test_everything_fits_where_there_is_room() -> None:
    found = pair(2000)
    assert (found.fits, found.draft_fits, found.rereads) == (True, True, False)
    assert [model.role for model in found.models] == ["target", "draft"]
    assert found.n_needed == sum(model.host.total for model in found.models)
    assert found.sentences[-1] == "Any context up to the trained length of 4,096 tokens fits."
    require_room(found)


def test_weights_that_do_not_stay_in_memory_are_a_warning() -> None:
    found = plan(TARGET, ASKED, machine(400))
    assert (found.fits, found.draft_fits, found.rereads) == (True, None, True)
    assert "read from disk again and again" in found.sentences[0]
    require_room(found)


def test_a_draft_may_not_drive_the_target_out() -> None:
    found = pair(650)
    assert (found.fits, found.draft_fits, found.rereads) == (True, False, False)
    error = refusal(found)
    assert "draft.gguf" in error.what
    assert "--draft ngram" in error.fix
    assert error.what in found.sentences[0]


def test_a_draft_beside_weights_that_are_read_again_needs_room_for_what_cannot_be_dropped() -> None:
    assert pair(400).draft_fits is True
    assert pair(120).draft_fits is False


def test_what_cannot_be_dropped_has_to_fit() -> None:
    error = refusal(plan(TARGET, ASKED, machine(80)))
    assert "target.gguf" in error.what
    assert "80.0 MB are free" in error.why
    assert re.match(r"Use -c \d+, or -ctk q8_0 -ctv q8_0", error.fix)
    assert error.fix.endswith("or a smaller quantisation.")


@pytest.mark.parametrize("asked", [replace(ASKED, mmap=False), replace(ASKED, mlock=True)])
def test_weights_outside_the_file_cannot_be_dropped(asked: Asked) -> None:
    error = refusal(plan(TARGET, asked, machine(400)))
    assert error.fix.startswith("Leave --no-mmap and --mlock out")
    require_room(plan(TARGET, ASKED, machine(400)))


def test_what_is_proposed_fits() -> None:
    for free_mb in (60, 80, 90):
        found = plan(TARGET, ASKED, machine(free_mb))
        for n_ctx, types in (
            (found.largest_n_ctx, ("f16", "f16")),
            (found.largest_quantised_n_ctx, ("q8_0", "q8_0")),
        ):
            if n_ctx is not None:
                context = ContextSize(n_ctx, type_k=types[0], type_v=types[1])
                require_room(plan(TARGET, replace(ASKED, context=context), machine(free_mb)))


@settings(deadline=None, max_examples=60)
@given(free_mb=st.integers(0, 900), exact=st.integers(0, 12))
def test_the_longest_context_fits_and_the_next_does_not(free_mb: int, exact: int) -> None:
    asked = replace(ASKED, context=ContextSize(1024, n_padding=exact))

    def judged(n_ctx: int) -> Plan:
        return pair(free_mb, replace(asked, context=replace(asked.context, n_ctx=n_ctx)))

    found = pair(free_mb, asked)
    n_ctx = found.largest_n_ctx
    if n_ctx is None:
        assert not (judged(256).fits and judged(256).draft_fits)
        return
    assert n_ctx % 256 == 0
    longest, beyond = judged(n_ctx), judged(n_ctx + 256)
    # Where the target does not fit alone as asked, the answer is about the target alone.
    assert longest.draft_fits if found.fits else longest.fits
    if n_ctx < 4096:
        too_much = not (beyond.draft_fits if found.fits else beyond.fits)
        assert too_much or (beyond.rereads and not longest.rereads)


@settings(deadline=None, max_examples=60)
@given(free_mb=st.integers(0, 900), n_steps=st.integers(1, 15))
def test_a_draft_that_fits_beside_a_longer_context_fits_beside_a_shorter_one(free_mb: int, n_steps: int) -> None:
    def fits(n_ctx: int) -> bool:
        return pair(free_mb, replace(ASKED, context=ContextSize(n_ctx))).draft_fits is True

    assert fits(256 * n_steps) or not fits(256 * (n_steps + 1))


def test_the_shortest_context_may_be_too_long() -> None:
    found = plan(TARGET, ASKED, machine(1))
    assert found.largest_n_ctx is None
    assert "No context fits" in found.sentences[-1]
    assert refusal(found).fix == "Use a smaller quantisation."


def test_context_0_is_the_trained_length() -> None:
    whole = plan(TARGET, replace(ASKED, context=ContextSize(0)), machine(2000))
    assert whole.target.n_ctx == 4096
    assert whole.n_needed == plan(TARGET, ASKED, machine(2000)).n_needed


def test_as_many_layers_as_fit_go_to_the_gpu() -> None:
    # llama.cpp's own margin of 1 GiB, a layer of 117 MB, the output and the buffers
    found = plan(TARGET, ASKED, machine(2000, 1430))
    assert found.fits
    assert (found.target.n_gpu_layers, found.target.n_layers) == (3, 5)
    assert "3 of 5 layers of the target on CUDA0." in found.sentences
    assert found.target.host.mapped == 250 * MB
    assert found.on_gpus["CUDA0"][0] == found.target.on["CUDA0"].total
    assert plan(TARGET, ASKED, machine(2000, 9000)).target.n_gpu_layers == 5
    assert plan(TARGET, ASKED, machine(2000, 500)).target.n_gpu_layers == 0


def test_the_draft_gets_what_the_target_leaves() -> None:
    found = plan(TARGET, ASKED, machine(2000, 1650), DRAFT, ASKED)
    assert found.target.n_gpu_layers == 5
    assert found.draft is not None
    assert found.draft.n_gpu_layers == 0
    assert found.draft_fits


def test_more_layers_than_fit_are_refused_with_the_number_that_fits() -> None:
    error = refusal(plan(TARGET, replace(ASKED, n_gpu_layers=99), machine(2000, 500)))
    assert "CUDA0 has 500 MB free" in error.why
    assert error.fix.startswith("Use -ngl 0")
    draft_only = plan(TARGET, replace(ASKED, n_gpu_layers=0), machine(2000, 100), DRAFT, replace(ASKED, n_gpu_layers=99))
    assert "-ngld" in refusal(draft_only).fix


def test_devices_can_be_named_or_left_out() -> None:
    both = plan(TARGET, replace(ASKED, tensor_split=(1.0, 1.0)), machine(2000, 9000, 9000))
    assert set(both.on_gpus) == {"CUDA0", "CUDA1"}
    assert set(plan(TARGET, replace(ASKED, devices=("CUDA1",)), machine(2000, 9000, 9000)).on_gpus) == {"CUDA1"}
    assert plan(TARGET, replace(ASKED, devices=()), machine(2000, 9000)).on_gpus == {}


def test_a_gpu_in_the_hosts_memory_takes_of_both() -> None:
    shared = Machine(2000 * MB, frozenset(), (Gpu("MTL0", 9000 * MB, shared=True),))
    found = plan(TARGET, ASKED, shared)
    apart = plan(TARGET, ASKED, replace(shared, gpus=(Gpu("MTL0", 9000 * MB),)))
    assert found.n_needed == apart.n_needed + apart.on_gpus["MTL0"][0]
    assert found.target.on["MTL0"].mapped == 450 * MB
    assert found.fits
    assert not plan(TARGET, ASKED, replace(shared, n_free=90 * MB)).fits
    assert plan(TARGET, ASKED, replace(shared, n_free=300 * MB)).rereads


@pytest.fixture(scope="module", params=["smollm2", "smollm2_q4_0"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    library.start()
    library.clear_log()
    loaded = Model(ModelOptions(request.getfixturevalue(request.param), n_gpu_layers=0), "target", Interrupt())
    yield loaded
    loaded.close()


def logged(what: str) -> int:
    """The bytes of all buffers of a kind that llama.cpp says it allocated."""
    sizes = [re.search(rf"{what} buffer size = *([\d.]+) MiB", line) for line in library.lines()]
    return round(sum(float(found[1]) for found in sizes if found) * 2**20)


@pytest.mark.model
def test_the_plan_agrees_with_what_llama_cpp_allocates(model: Model) -> None:
    header = read_header(model.options.path)
    shape = shape_of(header)
    # The first model of this module is loaded by the fixture, whose lines are the newest.
    weights = place(header, Placement((), (), 0, len(shape.layers)), (), library.cpu_features(), mapped=True, pinned=False)
    assert weights["host"].mapped == pytest.approx(logged("CPU_Mapped model"), rel=0.01)
    repacked = sum(logged(f"CPU_{kind} model") for kind in ("REPACK", "AARCH64", "KLEIDIAI")) + logged(" AMX model")
    assert weights["host"].repacked == pytest.approx(repacked, rel=0.01)
    for n_ctx in (512, 2048):
        for kind in (CacheType.F16, CacheType.Q8_0):
            library.clear_log()
            options = ContextOptions(n_ctx=n_ctx, type_k=kind, type_v=kind, n_threads=1)
            Context(model, options, Interrupt(), n_rows=8).close()
            size = ContextSize(n_ctx, n_rows=8, type_k=kind.value, type_v=kind.value)
            assert sum(cache_bytes(shape, size)) == pytest.approx(logged("KV"), rel=0.001)
            assert graph_bytes(shape, size) == pytest.approx(logged("compute"), rel=0.1)
            # One row is allocated at first, the others when they are asked for; llama.cpp rounds the line to 0.01 MiB.
            assert output_bytes(shape, replace(size, n_rows=1)) == pytest.approx(logged("output"), rel=0.05)


@pytest.mark.model
def test_the_plan_agrees_without_flash_attention(model: Model) -> None:
    library.clear_log()
    options = ContextOptions(n_ctx=1024, flash_attn=FlashAttention.OFF, n_threads=1)
    Context(model, options, Interrupt(), n_rows=1).close()
    shape, size = shape_of(read_header(model.options.path)), ContextSize(1024, flash_attn=False)
    assert graph_bytes(shape, size) == pytest.approx(logged("compute"), rel=0.05)
    assert sum(cache_bytes(shape, size)) == pytest.approx(logged("KV"), rel=0.001)


KEYS = (
    "block_count",
    "embedding_length",
    "context_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.sliding_window_pattern",
    "attention.sliding_window",
    "attention.shared_kv_layers",
    "feed_forward_length",
    "full_attention_interval",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "wkv.head_size",
    "expert_used_count",
    "expert_feed_forward_length",
    "nextn_predict_layers",
)
ODD = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(), st.booleans(), st.text(max_size=3), st.lists(st.integers(-9, 99)).map(np.array)
)


@settings(deadline=None, max_examples=100)
@given(
    values=st.dictionaries(st.sampled_from(KEYS), ODD), architecture=st.sampled_from(["llama", "mamba", "qwen3next", "gemma3n"])
)
def test_no_value_in_a_header_breaks_the_plan(values: dict[str, Any], architecture: str) -> None:
    own = {f"{architecture}.{key}": value for key, value in values.items()}
    header = replace(TARGET, metadata={"general.architecture": architecture, **own})
    found = plan(header, ASKED, machine(2000, 2000))
    assert min(parts.cache for parts in found.target.on.values()) >= 0
    assert found.n_needed >= 0


def test_a_file_that_says_nothing_still_gets_a_plan(tmp_path: Path) -> None:
    from tests.gguf_files import TINY, write_gguf

    header = read_header(write_gguf(tmp_path / "bare.gguf", {}, TINY))
    found = plan(header, ASKED, Machine(MB, frozenset(), (Gpu("CUDA0", 0),)))
    assert found.fits
    assert found.target.host.cache == 0
