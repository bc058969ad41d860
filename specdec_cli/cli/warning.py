"""What doctor warns of: pure judgement of the facts that it has gathered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from specdec_cli.units import size

Json = dict[str, Any]
Warned = tuple[str, str]  # what is wrong, and what to do

_LOW_DISK = 5_000_000_000  # bytes; a small model and its draft need less, the next one may not
_BUSY = 0.5  # share of the cores that others use


def warnings_of(facts: Json) -> list[Warned]:
    """Everything that slows a run down or stops it."""
    return [*_build(facts), *_graphics(facts), *_threads(facts), *_memory(facts), *_disk(facts), *_settings(facts)]


def rebuild(version: str | None, options: str) -> str:
    """The command that builds llama.cpp anew on this machine."""
    package = f"llama-cpp-python=={version}" if version else "llama-cpp-python"
    pip = f"pip install --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python {package}"
    return f"$env:CMAKE_ARGS='{options}'; {pip}" if os.name == "nt" else f'CMAKE_ARGS="{options}" {pip}'


def _build(facts: Json) -> Iterator[Warned]:
    error, version = facts["llama_cpp"]["error"], facts["versions"]["llama-cpp-python"]
    if error is not None:
        yield (f"llama.cpp cannot be loaded. {error}", rebuild(version, "-DGGML_NATIVE=on"))
    unused = facts["processor"]["unused_features"]
    if unused:
        yield (
            f"This build does not use what the processor has: {', '.join(unused)}. It is slower than it could be.",
            rebuild(version, "-DGGML_NATIVE=on"),
        )


def _graphics(facts: Json) -> Iterator[Warned]:
    llama = facts["llama_cpp"]
    if llama["error"] is not None or any(device["gpu"] for device in llama["devices"]):
        return
    for gpu in facts["gpus"][:1]:
        if gpu["backend"] in llama["backends"]:
            yield (
                f"There is a GPU ({gpu['name']}), this build can use it ({gpu['backend']}), and llama.cpp finds no device.",
                "Check the driver, CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, and a container's access to the GPU.",
            )
        else:
            yield (
                f"There is a GPU ({gpu['name']}), and this build of llama.cpp has no code for it.",
                rebuild(facts["versions"]["llama-cpp-python"], gpu["option"]),
            )


def _threads(facts: Json) -> Iterator[Warned]:
    cpu, environment = facts["processor"], facts["settings"]["environment"]
    if max(cpu["threads"], cpu["threads_batch"]) > cpu["usable_cores"]:
        yield (
            f"{max(cpu['threads'], cpu['threads_batch'])} threads will be used, and only {cpu['usable_cores']} cores may be:"
            " threads that wait for each other's turn make every pass slow.",
            f"Use -t {cpu['usable_cores']}, or SPECDEC_THREADS={cpu['usable_cores']}.",
        )
    spins = environment.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE" and "OPENMP" in facts["llama_cpp"]["features"]
    if spins and cpu["threads"] > 1 and cpu["load"] >= _BUSY * cpu["usable_cores"]:
        yield (
            f"The machine is busy (load {cpu['load']} on {cpu['usable_cores']} cores), and the threads of this build (OpenMP)"
            " spin while they wait: runs can be 5 to 10 times slower.",
            "Stop the other programs, use -t 1, or set OMP_WAIT_POLICY=PASSIVE.",
        )


def _memory(facts: Json) -> Iterator[Warned]:
    memory = facts["memory"]
    left = memory["limit_leaves"]
    if left is not None and left < memory["available"]:
        yield (
            f"A limit of the container or service leaves {size(left)} of memory,"
            f" where the machine has {size(memory['available'])} free.",
            "Raise the limit, or choose models and contexts that fit: specdec check TARGET DRAFT",
        )


def _disk(facts: Json) -> Iterator[Warned]:
    for cache in facts["caches"]:
        if cache["disk_free"] is not None and cache["disk_free"] < _LOW_DISK:
            variable = "HF_HOME" if cache["what"] == "hub" else "SPECDEC_CACHE"
            yield (
                f"Only {size(cache['disk_free'])} are free where {cache['folder']} lies.",
                f"Free space there, or set {variable} to a folder on a larger disk.",
            )


def _settings(facts: Json) -> Iterator[Warned]:
    for what in facts["settings"]["notices"]:
        yield what, "Correct the environment: with such a variable a run does not start, or does not do what it should."
