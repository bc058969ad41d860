"""What doctor found, as lines: facts first, warnings last, commands to paste unbroken."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from specdec_cli.ui.doctored import render_doctored

FIX = (
    'CMAKE_ARGS="-DGGML_NATIVE=on" pip install --force-reinstall --no-deps --no-binary llama-cpp-python llama-cpp-python==1.2.3'
)
DOCUMENT: dict[str, Any] = {
    "versions": {"specdec": "1.0", "python": "3.12.1", "numpy": "2.0", "rich": None},
    "system": {"name": "Linux-6", "machine": "x86_64", "python": "CPython"},
    "llama_cpp": {
        "build": "llama-cpp-python 1.2.3",
        "commit": "abc",
        "backends": ["CPU", "CUDA"],
        "features": ["AVX", "AVX2"],
        "devices": [{"name": "CUDA0", "description": "A GPU", "gpu": True, "free": 8_000_000_000, "total": 16_000_000_000}],
        "error": None,
    },
    "processor": {
        "name": "A CPU",
        "physical_cores": 8,
        "logical_cores": 16,
        "usable_cores": 4,
        "threads": 8,
        "threads_batch": 6,
        "load": 0.5,
        "features": ["AVX2"],
        "unused_features": [],
    },
    "gpus": [{"maker": "NVIDIA", "name": "A GPU", "backend": "CUDA", "option": "-DGGML_CUDA=on"}],
    "memory": {"total": 32_000_000_000, "available": 16_000_000_000, "limit_leaves": 4_000_000_000},
    "caches": [{"what": "hub", "folder": "~/hub", "bytes": 10_000_000, "disk_free": None}],
    "hub": {"endpoint": "https://hub.example", "offline": True, "token": False},
    "settings": {
        "environment": {"SPECDEC_TEMP": "0"},
        "notices": [],
        "profiles_folder": "~/p",
        "profiles": ["a"],
        "own_profiles": [],
    },
    "terminal": {"stdout": False, "stdout_encoding": "utf-8", "stderr": True},
    "warnings": [],
}


def shown(columns: int = 80, *, colour: bool = False, **changes: Any) -> str:
    return render_doctored(DOCUMENT | changes, colour=colour, columns=columns)


def test_every_fact_has_a_line() -> None:
    text = shown()
    for line in (
        "specdec        1.0",
        "llama.cpp      llama-cpp-python 1.2.3, ggml abc",
        "build          CPU, CUDA; AVX AVX2",
        "device         CUDA0: A GPU, 8.00 GB of 16.0 GB free",
        "cores          8 physical, 16 logical, 4 usable; load 0.5",
        "threads        8, and 6 for passes of several tokens",
        "GPUs           A GPU (NVIDIA)",
        "memory         16.0 GB of 32.0 GB free; a limit leaves 4.00 GB",
        "hub cache      ~/hub: 10.0 MB",
        "hub            https://hub.example, offline: yes, token: no",
        "SPECDEC_TEMP   0",
        "packages       numpy 2.0, rich is not installed",
    ):
        assert line in text.splitlines()
    assert text.endswith("\n\nNothing to warn of.")


@pytest.mark.parametrize("columns", [40, 80])
def test_warnings_come_last_and_what_is_to_be_pasted_is_not_broken(columns: int) -> None:
    text = shown(columns, warnings=[{"what": "This build is slow. " * 6, "fix": FIX}])
    assert text.endswith(f"\n  {FIX}")
    assert max(cell_len(line) for line in text.splitlines() if FIX not in line) <= columns


def test_a_build_that_does_not_load_is_told_with_the_reason() -> None:
    llama = DOCUMENT["llama_cpp"] | {"error": "OSError: no such library", "build": None}
    assert "llama.cpp      cannot be loaded: OSError: no such library" in shown(llama_cpp=llama)


def test_what_the_environment_holds_steers_no_terminal() -> None:
    settings = DOCUMENT["settings"] | {"environment": {"SPECDEC_PROMPT": "\x1b[2J" + "x" * 100_000}}
    text = shown(settings=settings)
    assert "\x1b" not in text
    assert len(text) < 5000
    assert "\x1b[" in shown(colour=True)
