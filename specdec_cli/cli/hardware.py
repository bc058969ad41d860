"""What the machine has, whether or not llama.cpp uses it: instructions of the processor, GPUs, limits on cores."""

from __future__ import annotations

import ctypes
import math
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

_WAIT_S = 5.0  # for a program that tells about the hardware

# What llama.cpp calls a set of instructions -> what the systems call all that it needs.
_LINUX: Mapping[str, tuple[str, ...]] = {
    "SSE3": ("pni",),
    "SSSE3": ("ssse3",),
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "F16C": ("f16c",),
    "FMA": ("fma",),
    "BMI2": ("bmi2",),
    "AVX_VNNI": ("avx_vnni",),
    "AVX512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
    "AVX512_VBMI": ("avx512vbmi",),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
    "AMX_INT8": ("amx_int8",),
    "NEON": ("asimd",),
    "FP16_VA": ("asimdhp",),
    "DOTPROD": ("asimddp",),
    "MATMUL_INT8": ("i8mm",),
    "SVE": ("sve",),
}
_MACOS: Mapping[str, tuple[str, ...]] = {
    "AVX": ("avx1.0",),
    "AVX2": ("avx2",),
    "F16C": ("f16c",),
    "FMA": ("fma",),
    "BMI2": ("bmi2",),
    "AVX512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
    "DOTPROD": ("hw.optional.arm.feat_dotprod",),
    "MATMUL_INT8": ("hw.optional.arm.feat_i8mm",),
}
_WINDOWS: Mapping[str, int] = {"AVX": 39, "AVX2": 40, "AVX512": 41, "DOTPROD": 43}  # PF_..._INSTRUCTIONS_AVAILABLE


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that the system knows of."""

    maker: str  # NVIDIA, AMD, Apple
    name: str
    backend: str  # of llama.cpp, that uses it
    option: str  # which builds that


def processor_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instructions that llama.cpp has a use for, by its names. Empty where the system does not tell."""
    if sys.platform == "win32":
        present = ctypes.windll.kernel32.IsProcessorFeaturePresent
        return frozenset(name for name, number in _WINDOWS.items() if present(number))
    if sys.platform == "darwin":
        return _named(_MACOS, _sysctl(_output("sysctl", "machdep.cpu", "hw.optional")))
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return _named(_LINUX, frozenset(value.lower().split()))
    return frozenset()


def gpus(root: Path = Path("/")) -> list[Gpu]:
    """GPUs that llama.cpp could use. Looks for their drivers; a card without one does not count."""
    found = []
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").strip().splitlines()
    if not names and _has_entries(root / "proc/driver/nvidia/gpus"):
        names = ["NVIDIA GPU"]
    found += [Gpu("NVIDIA", name.strip()[:100], "CUDA", "-DGGML_CUDA=on") for name in names]
    if (root / "dev/kfd").exists():
        found.append(Gpu("AMD", "AMD GPU", "ROCm", "-DGGML_HIP=on"))
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append(Gpu("Apple", "Apple GPU", "MTL", "-DGGML_METAL=on"))
    return found


def usable_cores(membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Logical cores that this process may keep busy: what its affinity and the limits of containers leave."""
    n = psutil.cpu_count() or 1
    with suppress(AttributeError, OSError, psutil.Error):  # a system without affinity
        n = min(n, len(psutil.Process().cpu_affinity() or range(n)))
    return max(1, min([n, *(math.ceil(quota) for quota in _quotas(membership, root))]))


def _quotas(membership: Path, root: Path) -> list[float]:
    """Cores that each limit allows on average."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        inner = PurePosixPath(path.lstrip("/"))
        for folder in (inner, *inner.parents):
            if not controllers:
                words = _words(root / folder / "cpu.max")
            elif "cpu" in controllers.split(","):
                here = root / "cpu" / folder
                words = [*_words(here / "cpu.cfs_quota_us"), *_words(here / "cpu.cfs_period_us")]
            else:
                continue
            if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
                found.append(int(words[0]) / int(words[1]))
    return found


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []


def _named(table: Mapping[str, tuple[str, ...]], flags: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name, needed in table.items() if flags.issuperset(needed))


def _sysctl(text: str) -> frozenset[str]:
    """Words of the lists, and names of the switches that are on."""
    found: set[str] = set()
    for line in text.lower().splitlines():
        key, _, value = line.partition(":")
        if value.strip() == "1":
            found.add(key.strip())
        elif "features" in key:
            found.update(value.split())
    return frozenset(found)


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _output(program: str, *arguments: str) -> str:
    """What a program says; nothing where it is not there, fails or does not end."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WAIT_S,
            check=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
