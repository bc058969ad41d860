"""Models and contexts over llama.cpp itself, on the embedded model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import BackendError, ModelFileError, UsageError
from specdec_cli.llama import context as context_module
from specdec_cli.llama import library
from specdec_cli.llama.context import Context, RollbackKind, find_rollback
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import ContextOptions, Lora, ModelOptions

pytestmark = pytest.mark.model

OPTIONS = ContextOptions(n_ctx=512, n_threads=1)


@pytest.fixture(scope="module")
def interrupt() -> Interrupt:
    return Interrupt()


@pytest.fixture(scope="module")
def model(smollm2: Path, interrupt: Interrupt) -> Iterator[Model]:
    loaded = Model(ModelOptions(smollm2), "target", interrupt)
    yield loaded
    loaded.close()


@pytest.fixture
def context(model: Model, interrupt: Interrupt) -> Iterator[Context]:
    made = Context(model, OPTIONS, interrupt, n_rows=4)
    yield made
    made.close()


def test_rows_are_those_of_one_token_at_a_time(context: Context) -> None:
    together = context.decode([5, 6, 7]).rows.argmax(axis=1).tolist()
    context.keep(0)
    assert [int(context.decode([token]).rows[0].argmax()) for token in (5, 6, 7)] == together


def test_a_truncated_cache_goes_on_from_there(context: Context) -> None:
    context.feed([5, 6])
    wanted = context.decode([7]).rows[0].copy()
    context.keep(2)
    context.decode([9, 10])
    context.keep(2)
    assert np.array_equal(context.decode([7]).rows[0], wanted)


def test_last_only_passes_more_tokens_than_it_gives_rows(context: Context) -> None:
    assert context.decode(list(range(10, 20)), last_only=True).rows.shape == (1, context.n_vocab)
    assert context.n_cached == 10


def test_what_could_trip_a_native_assert_is_refused_before_the_call(context: Context) -> None:
    with pytest.raises(BackendError, match="5 rows"):
        context.decode([1] * 5)
    with pytest.raises(BackendError, match="does not fit"):
        context.feed([1] * 513)
    with pytest.raises(BackendError, match="did not go back"):
        context.keep(3)
    assert context.n_cached == 0


def test_the_cache_of_this_model_can_go_back(context: Context) -> None:
    assert find_rollback(context, 1) is RollbackKind.TAIL
    assert context.n_cached == 0


def test_a_requested_interrupt_aborts_a_pass_and_leaves_nothing_of_it(context: Context, interrupt: Interrupt) -> None:
    context.feed([5, 6])
    interrupt.request()
    with pytest.raises(PassAborted):
        context.feed([7] * 100)
    interrupt.clear()
    assert context.n_cached == 2
    context.feed([7])
    assert context.n_cached == 3


def test_the_native_poll_reads_the_flag(interrupt: Interrupt) -> None:
    """The function that llama.cpp is given, called as it calls it."""
    import llama_cpp

    poll = llama_cpp.ggml_abort_callback(interrupt.poll)
    assert poll(interrupt.address) is False
    interrupt.request()
    assert poll(interrupt.address) is True
    interrupt.clear()
    assert poll(interrupt.address) is False


def test_prompt_pieces_on_a_gpu_shrink_until_they_are_short(
    model: Model, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(context_module, "_PIECE_S", 1e-6)
    made = Context(model, OPTIONS, interrupt, n_rows=1)
    assert made.max_piece == 512
    made.feed([5] * 100)
    assert made.max_piece == 32
    made.close()


def test_prompt_pieces_on_a_gpu_do_not_follow_the_clock_under_exact(
    model: Model, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(context_module, "_PIECE_S", 1e-6)
    made = Context(model, OPTIONS, interrupt, n_rows=1, steady=True)
    before = made.max_piece
    made.feed([5] * 100)
    assert made.max_piece == before == 128
    made.close()


def test_the_models_own_bos_rule_is_read(model: Model) -> None:
    assert not model.vocabulary.add_bos


def test_every_device_is_listed() -> None:
    names = [device.name for device in library.devices()]
    assert "CPU" in names
    assert "CPU" in library.buffer_types()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": ("CUDA7",)}, "no device 'CUDA7'"),
        ({"override_tensor": ((r"\.ffn_", "CUDA7"),)}, "no buffer type 'CUDA7'"),
        ({"override_kv": ("general.name=text:x",)}, "cannot be read"),
        ({"tensor_split": (1.0,) * 300}, "300 parts"),
    ],
)
def test_options_that_this_build_does_not_have_are_named(
    smollm2: Path, interrupt: Interrupt, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words.replace("'", ".")):
        Model(replace(ModelOptions(smollm2), **changes), "target", interrupt)  # type: ignore[arg-type]


def test_options_for_tensors_and_metadata_reach_llama_cpp(smollm2: Path, interrupt: Interrupt) -> None:
    options = ModelOptions(
        smollm2,
        devices=("none",),
        override_tensor=((r"\.ffn_up", "CPU"),),
        override_kv=("tokenizer.ggml.add_bos_token=bool:true",),
        mmap=False,
    )
    loaded = Model(options, "target", interrupt)
    assert loaded.vocabulary.add_bos
    assert loaded.vocabulary.tokenize("Hi", add_special=True, parse_special=False)[0] == loaded.vocabulary.bos
    loaded.close()


def test_an_adapter_that_does_not_load_is_named(smollm2: Path, interrupt: Interrupt, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no LoRA adapter"):
        Model(ModelOptions(smollm2, lora=(Lora(tmp_path / "none.gguf"),)), "target", interrupt)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match=r"wrong\.gguf does not load"):
        Model(ModelOptions(smollm2, lora=(Lora(wrong),)), "target", interrupt)


def test_loading_reports_progress_and_stops_when_asked(smollm2: Path) -> None:
    seen: list[float] = []
    Model(ModelOptions(smollm2), "target", Interrupt(), seen.append).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    stopped = Interrupt()
    with pytest.raises(PassAborted):
        Model(ModelOptions(smollm2), "target", stopped, lambda fraction: stopped.request())
