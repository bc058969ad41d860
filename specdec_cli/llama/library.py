"""Start llama.cpp once, keep its log, and list what it can run on."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import _ctypes_extensions

_LEVEL_WARN, _LEVEL_ERROR, _LEVEL_CONTINUED = 3, 4, 5
_DEVICE_CPU, _DEVICE_ACCELERATOR = 0, 3  # enum ggml_backend_dev_type: host memory, no layers to offload to

_log: deque[tuple[int, str]] = deque(maxlen=4000)


@llama_cpp.llama_log_callback
def _keep_line(level: int, text: bytes, _data: ctypes.c_void_p) -> None:
    line = text.decode("utf-8", "replace")
    if level == _LEVEL_CONTINUED and _log:
        level, line = _log[-1][0], _log.pop()[1] + line
    _log.append((level, line))


@dataclass(frozen=True, slots=True)
class Device:
    """Something llama.cpp can compute on. Memory in bytes."""

    name: str
    description: str
    is_gpu: bool
    memory_free: int
    memory_total: int
    handle: int


@cache
def start() -> None:
    """Capture the log and initialise the backends. Nothing is printed by llama.cpp from here on."""
    llama_cpp.llama_log_set(_keep_line, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()


def clear_log() -> None:
    """Forget the lines so far, before a call whose failure would be quoted."""
    _log.clear()


def error_lines() -> list[str]:
    """llama.cpp's warnings and errors since clear_log(), oldest first, without blank ones."""
    return [text.strip() for level, text in _log if level in (_LEVEL_WARN, _LEVEL_ERROR) and text.strip()]


def lines() -> list[str]:
    """Every line of llama.cpp since clear_log(), as far as they are kept."""
    return [text.strip() for _, text in _log if text.strip()]


def last_error() -> str:
    """llama.cpp's own last error line, or an empty string."""
    errors = [text.strip() for level, text in _log if level == _LEVEL_ERROR and text.strip()]
    return errors[-1] if errors else ""


def build() -> str:
    """The versions of llama-cpp-python and of the llama.cpp in it."""
    return f"llama-cpp-python {version('llama-cpp-python')} (llama.cpp {llama_cpp.llama_version().decode()})"


@cache
def devices() -> tuple[Device, ...]:
    """Every device that llama.cpp lists, in its order."""
    start()
    found = []
    for i in range(_ggml("ggml_backend_dev_count", ctypes.c_size_t)()):
        handle = _ggml("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)(i)
        kind = _ggml("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)(handle)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _ggml("ggml_backend_dev_memory", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
            handle, ctypes.addressof(free), ctypes.addressof(total)
        )
        found.append(
            Device(
                _ggml("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)(handle).decode(),
                _ggml("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)(handle).decode(),
                kind not in (_DEVICE_CPU, _DEVICE_ACCELERATOR),
                free.value,
                total.value,
                handle,
            )
        )
    return tuple(found)


@cache
def cpu_features() -> frozenset[str]:
    """What this build uses of the processor, as llama.cpp names it: AVX2, REPACK; with a value other than 1, SVE_CNT=32."""
    start()
    found = set()
    for entry in llama_cpp.llama_print_system_info().decode().split("|"):
        backend, _, rest = entry.rpartition(" : ")
        name, _, value = rest.strip().partition(" = ")
        if backend.strip() not in ("", "CPU"):
            break
        if value not in ("", "0"):
            found.add(name if value == "1" else f"{name}={value}")
    return frozenset(found)


@cache
def commit() -> str:
    """The commit that the build's ggml was made from."""
    return str(_ggml("ggml_commit", ctypes.c_char_p)().decode())


@cache
def backends() -> tuple[str, ...]:
    """What the build can compute with, as llama.cpp names it: CPU, CUDA, ROCm, Metal, Vulkan. Their devices may be none."""
    start()
    get, name = (
        _ggml("ggml_backend_reg_get", ctypes.c_void_p, ctypes.c_size_t),
        _ggml("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p),
    )
    return tuple(name(get(i)).decode() for i in range(_ggml("ggml_backend_reg_count", ctypes.c_size_t)()))


@cache
def buffer_types() -> dict[str, int]:
    """Names of the buffer types that --override-tensor takes -> handles."""
    found: dict[str, int] = {}
    for device in devices():
        buffer_type = _ggml("ggml_backend_dev_buffer_type", ctypes.c_void_p, ctypes.c_void_p)(device.handle)
        if buffer_type:
            name = _ggml("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)(buffer_type).decode()
            found.setdefault(name, buffer_type)
    return found


@cache
def _ggml_libraries() -> tuple[ctypes.CDLL, ...]:
    folder = Path(os.path.abspath(llama_cpp.__file__)).parent / "lib"  # noqa: PTH100 (as the package itself finds it)
    return tuple(_ctypes_extensions.load_shared_library(name, folder) for name in ("ggml", "ggml-base"))


@cache
def _ggml(name: str, result: Any, *arguments: Any) -> Any:
    """A function of ggml's backend interface, which llama-cpp-python does not bind."""
    for library in _ggml_libraries():
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
            return function
    raise AttributeError(f"ggml has no function {name}")
