"""What is found out about a machine: instructions, GPUs, limits on cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from specdec_cli.cli import hardware

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux files")


@linux
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t: fpu pni ssse3 avx avx2 fma f16c\n", {"SSE3", "SSSE3", "AVX", "AVX2", "FMA", "F16C"}),
        ("flags : avx512f avx512cd avx512vl avx512dq avx512bw amx_int8\n", {"AVX512", "AMX_INT8"}),
        ("flags : avx512f\n", set()),
        ("Features\t: fp asimd asimdhp asimddp i8mm sve\n", {"NEON", "FP16_VA", "DOTPROD", "MATMUL_INT8", "SVE"}),
        ("nothing\n", set()),
    ],
)
def test_instructions_have_llama_cpps_names(tmp_path: Path, text: str, expected: set[str]) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert hardware.processor_features(tmp_path / "cpuinfo") == expected


@linux
def test_a_system_that_does_not_tell_has_no_known_instructions(tmp_path: Path) -> None:
    assert hardware.processor_features(tmp_path / "nowhere") == frozenset()


@linux
def test_gpus_are_found_by_their_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert hardware.gpus(tmp_path) == []
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert [(gpu.maker, gpu.backend) for gpu in hardware.gpus(tmp_path)] == [("NVIDIA", "CUDA"), ("AMD", "ROCm")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a script that runs")
def test_gpus_have_the_names_that_their_program_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA One'\necho 'NVIDIA Two'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert [gpu.name for gpu in hardware.gpus(tmp_path) if gpu.maker == "NVIDIA"] == ["NVIDIA One", "NVIDIA Two"]
    program.write_text("#!/bin/sh\necho 'no devices were found'\nexit 6\n", encoding="utf-8")
    assert [gpu for gpu in hardware.gpus(tmp_path) if gpu.maker == "NVIDIA"] == []


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/a/b\n", {"a/cpu.max": "100000 100000"}, 1),
        ("0::/a/b\n", {"a/cpu.max": "max 100000", "a/b/cpu.max": "10000 100000"}, 1),
        ("2:cpu,cpuacct:/c\n", {"cpu/c/cpu.cfs_quota_us": "50000", "cpu/c/cpu.cfs_period_us": "100000"}, 1),
        ("2:cpu:/c\n", {"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, None),
        ("0::/a\n", {"a/cpu.max": "99900000 100000"}, None),
        ("0::/a\n", {"a/cpu.max": "rubbish"}, None),
        ("rubbish", {}, None),
    ],
)
def test_limits_of_containers_count(tmp_path: Path, membership: str, files: dict[str, str], expected: int | None) -> None:
    (tmp_path / "membership").write_text(membership, encoding="utf-8")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    unlimited = hardware.usable_cores(tmp_path / "nowhere", tmp_path)
    assert 1 <= unlimited <= (psutil.cpu_count() or 1)
    assert hardware.usable_cores(tmp_path / "membership", tmp_path) == (expected or unlimited)
