"""From options and this machine to a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from specdec_cli import room
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama import library
from specdec_cli.llama.library import Device
from specdec_cli.llama.options import CacheType, ContextOptions, FlashAttention, Lora, ModelOptions, SplitMode
from specdec_cli.pairing.planned import Plan
from tests.gguf_files import smollm2
from tests.pairing.plans import MB, big_header, machine

HERE = machine(2000, 9000, 9000)
MODEL = ModelOptions(Path("target.gguf"))
CONTEXT = ContextOptions(n_ctx=1024)


def planned(model: ModelOptions = MODEL, context: ContextOptions = CONTEXT, n_rows: int = 1, *, exact: bool = False) -> Plan:
    return room.plan_for(big_header(), model, context, n_rows=n_rows, exact=exact, machine=HERE)


def test_options_of_the_model_decide_where_weights_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = tuple(Device(f"CUDA{i}", "", True, 9000 * MB, 9000 * MB, 0) for i in range(2))
    monkeypatch.setattr(library, "devices", lambda: (Device("CPU", "", False, 0, 0, 0), *gpus))
    host = replace(MODEL, devices=("none",))
    assert planned(host).on_gpus == {}
    assert planned(host).target.host.mapped == 500 * MB
    assert planned(replace(host, mmap=False)).target.host.loaded == 500 * MB
    assert planned(replace(host, mlock=True)).target.host.loaded == 500 * MB
    assert set(planned(replace(MODEL, devices=("CUDA1",))).on_gpus) == {"CUDA1"}
    assert set(planned(replace(MODEL, split_mode=SplitMode.NONE, main_gpu=1)).on_gpus) == {"CUDA1"}
    assert set(planned(replace(MODEL, tensor_split=(1.0, 1.0))).on_gpus) == {"CUDA0", "CUDA1"}
    assert planned(replace(MODEL, n_gpu_layers=2)).target.n_gpu_layers == 2
    overridden = planned(replace(MODEL, override_tensor=((r"ffn_up", "CPU"),)))
    assert overridden.target.host.mapped == 450 * MB


def test_adapters_count(tmp_path: Path) -> None:
    adapter = tmp_path / "lora.gguf"
    adapter.write_bytes(b"x" * 1000)
    with_adapter = planned(replace(MODEL, lora=(Lora(adapter), Lora(tmp_path / "absent.gguf"))))
    assert with_adapter.n_needed - planned().n_needed == 1000


def test_options_of_the_context_decide_its_size() -> None:
    def cache(context: ContextOptions) -> int:
        return sum(parts.cache for parts in planned(context=context).target.on.values())

    assert cache(replace(CONTEXT, n_ctx=2048)) == 2 * cache(CONTEXT)
    assert cache(replace(CONTEXT, type_k=CacheType.F32, type_v=CacheType.F32)) == 2 * cache(CONTEXT)
    off = planned(context=replace(CONTEXT, flash_attn=FlashAttention.OFF))
    assert sum(p.compute for p in off.target.on.values()) > sum(p.compute for p in planned().target.on.values())


def test_exact_makes_the_context_longer_but_not_what_a_run_may_hold() -> None:
    exact, plain = planned(n_rows=9, exact=True), planned(n_rows=9)
    assert exact.target.n_ctx == plain.target.n_ctx == 1024
    caches = [sum(parts.cache for parts in found.target.on.values()) for found in (exact, plain)]
    assert caches[0] == caches[1] * 1280 / 1024


def test_the_draft_has_the_targets_context() -> None:
    found = room.plan_for(
        big_header(), MODEL, replace(CONTEXT, n_ctx=0), big_header("draft.gguf"), MODEL, ContextOptions(n_ctx=512), machine=HERE
    )
    assert [model.n_ctx for model in found.models] == [4096, 4096]
    assert found.draft is not None
    assert found.draft.name == "draft.gguf"


def test_what_open_models_hold_counts_as_free_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(replace(MODEL, mmap=False, devices=("none",)))
    held = plan.target.n_host_fixed
    assert held >= 500 * MB
    monkeypatch.setattr(room, "this_machine", lambda: replace(HERE, n_free=HERE.n_free - held))
    assert room.beside(plan, HERE).n_free == HERE.n_free
    # Others have taken memory meanwhile, or given some back: never more than there was before.
    monkeypatch.setattr(room, "this_machine", lambda: replace(HERE, n_free=100 * MB))
    assert room.beside(plan, HERE).n_free == 100 * MB + held
    monkeypatch.setattr(room, "this_machine", lambda: HERE)
    assert room.beside(plan, HERE).n_free == HERE.n_free


def test_what_open_models_hold_on_a_gpu_counts_as_free_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(replace(MODEL, devices=("CUDA1",)))
    ((name, (held, _)),) = plan.on_gpus.items()
    taken = tuple(replace(gpu, n_free=gpu.n_free - held) if gpu.name == name else gpu for gpu in HERE.gpus)
    monkeypatch.setattr(room, "this_machine", lambda: replace(HERE, gpus=taken))
    assert room.beside(plan, HERE).gpus == HERE.gpus


def test_this_machine_has_room_for_a_small_model() -> None:
    header = read_header(smollm2())
    found = room.plan_for(header, ModelOptions(smollm2(), devices=("none",)), ContextOptions(n_ctx=512))
    assert found.fits
    assert header.n_tensor_bytes < found.n_needed < found.n_free
    assert found.n_free <= psutil.virtual_memory().total + found.machine.n_program
    assert "free" in found.sentences[0]


def test_features_of_the_processor_are_names() -> None:
    features = library.cpu_features()
    assert features
    assert all(" " not in name and ":" not in name for name in features)


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def limited(folder: Path, membership: str) -> int | None:
    path = folder.parent / "membership"
    path.write_text(membership, encoding="utf-8")
    return room.limit_left(path, folder)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def test_the_limit_of_a_container_counts_without_cached_files(cgroups: Path) -> None:
    write(
        cgroups / "a" / "b",
        memory__max="1000\n",
        memory__current="700\n",
        memory__stat="anon 400\nactive_file 200\ninactive_file 100\n",
    )
    assert limited(cgroups, "0::/a/b\n") == 1000 - (700 - 300)


def test_the_narrowest_limit_above_counts(cgroups: Path) -> None:
    stat = "active_file 0\ninactive_file 0\n"
    write(cgroups / "a" / "b", memory__max="max\n", memory__current="100\n", memory__stat=stat)
    write(cgroups / "a", memory__max="500\n", memory__current="100\n", memory__stat=stat)
    assert limited(cgroups, "0::/a/b\n") == 400


def test_older_limits_are_read_too(cgroups: Path) -> None:
    write(
        cgroups / "memory" / "a",
        memory__limit_in_bytes="1000\n",
        memory__usage_in_bytes="900\n",
        memory__stat="total_active_file 100\ntotal_inactive_file 50\n",
    )
    assert limited(cgroups, "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n") == 250


@pytest.mark.parametrize("membership", ["0::/a\n", "", "nonsense", "4:memory:/a\n"])
def test_no_limit_is_no_limit(cgroups: Path, membership: str) -> None:
    write(cgroups / "a", memory__max="max\n", memory__current="100\n", memory__stat="")
    assert limited(cgroups, membership) is None
    assert room.limit_left(cgroups / "absent", cgroups) is None


def test_a_limit_is_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "limit_left", lambda: 10 * MB)
    assert room.this_machine().n_free < 100 * MB
    monkeypatch.setattr(room, "limit_left", lambda: None)
    assert room.this_machine().n_free > 100 * MB
