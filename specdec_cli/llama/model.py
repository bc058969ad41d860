"""Load a GGUF: weights, vocabulary, metadata, chat template, adapters."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp

from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import ModelFileError, UsageError
from specdec_cli.llama import faults, library
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ModelOptions, SplitMode
from specdec_cli.llama.vocabulary import Vocabulary

_SPLIT = {
    SplitMode.NONE: llama_cpp.LLAMA_SPLIT_MODE_NONE,
    SplitMode.LAYER: llama_cpp.LLAMA_SPLIT_MODE_LAYER,
    SplitMode.ROW: llama_cpp.LLAMA_SPLIT_MODE_ROW,
}
_KV_INT, _KV_FLOAT, _KV_BOOL, _KV_STR = range(4)  # enum llama_model_kv_override_type
_KV_READ: dict[str, Callable[[str], int | float | bool | str]] = {
    "int": int,
    "float": float,
    "bool": {"true": True, "false": False}.__getitem__,
    "str": str,
}
_KV_TEXT_MAX = 127  # bytes of a key or a string value
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # (mmap, mlock): enum llama_load_mode


class _BufferOverride(ctypes.Structure):
    """struct llama_model_tensor_buft_override, which llama-cpp-python does not bind."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p)]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded LoRA adapter; it lives as long as the model."""

    handle: int
    scale: float


class Model:
    """A loaded model. close() frees it; every context of it must be closed before.

    Raises ModelFileError, UsageError, PassAborted (when interrupt is requested while it loads).
    """

    def __init__(
        self,
        options: ModelOptions,
        role: str,
        interrupt: Interrupt,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        library.start()
        self.options = options
        self.role = role
        self.handle = _load(options, role, interrupt, on_progress)
        self.vocabulary = Vocabulary(llama_cpp.llama_model_get_vocab(self.handle))
        self.adapters = tuple(self._adapter(lora.path, lora.scale) for lora in options.lora)
        self.metadata = _metadata(self.handle)

    @property
    def n_ctx_train(self) -> int:
        return int(llama_cpp.llama_model_n_ctx_train(self.handle))

    @property
    def description(self) -> str:
        """As llama.cpp puts it: architecture, size, quantisation."""
        buffer = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self.handle, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    @property
    def n_params(self) -> int:
        return int(llama_cpp.llama_model_n_params(self.handle))

    @property
    def n_bytes(self) -> int:
        """Total size of the tensors."""
        return int(llama_cpp.llama_model_size(self.handle))

    @property
    def chat_template(self) -> str | None:
        """The template's source, or None."""
        found = llama_cpp.llama_model_chat_template(self.handle, None)
        return found.decode("utf-8", "replace") if found else None

    @property
    def on_gpu(self) -> bool:
        """Whether any of it may run on a GPU."""
        offloads = self.options.n_gpu_layers != 0 and self.options.devices != ("none",)
        return offloads and any(device.is_gpu for device in library.devices())

    def close(self) -> None:
        if self.handle:
            llama_cpp.llama_model_free(self.handle)
            self.handle = 0

    def _adapter(self, path: Path, scale: float) -> Adapter:
        if not path.is_file():
            self.close()
            raise ModelFileError(f"There is no LoRA adapter {path}.", "", "Check the path given to --lora.")
        library.clear_log()
        handle = llama_cpp.llama_adapter_lora_init(self.handle, os.fsencode(path))
        if not handle:
            self.close()
            raise ModelFileError(
                f"The LoRA adapter {path.name} does not load into {self.options.path.name}.",
                f"llama.cpp says: {library.last_error() or 'nothing'}",
                "An adapter fits only the model that it was trained on.",
            )
        return Adapter(handle, scale)


def _load(options: ModelOptions, role: str, interrupt: Interrupt, on_progress: Callable[[float], None] | None) -> int:
    @llama_cpp.llama_progress_callback
    def report(fraction: float, _data: ctypes.c_void_p) -> bool:
        if on_progress is not None:
            on_progress(fraction)
        return not interrupt.requested

    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = options.n_gpu_layers
    params.split_mode = _SPLIT[options.split_mode]
    params.main_gpu = options.main_gpu
    params.load_mode = _LOAD_MODES[options.mmap, options.mlock]
    params.progress_callback = report
    alive = [_set_devices(params, options), _set_overrides(params, options), _set_metadata(params, options)]
    if options.tensor_split:
        n_devices = int(llama_cpp.llama_max_devices())
        if len(options.tensor_split) > n_devices:
            raise UsageError(
                f"--tensor-split has {len(options.tensor_split)} parts.", f"This build has {n_devices} devices at most.", ""
            )
        shares = (ctypes.c_float * n_devices)(*options.tensor_split)
        params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        alive.append(shares)
    library.clear_log()
    with interrupt.calling_back():
        handle = llama_cpp.llama_model_load_from_file(os.fsencode(options.path), params)
    del alive
    if interrupt.requested:
        if handle:
            llama_cpp.llama_model_free(handle)
        raise PassAborted
    if not handle:
        raise faults.load_failed(role, options.path.name)
    return int(handle)


def _set_devices(params: Any, options: ModelOptions) -> Any:
    """-dev: a NULL-terminated list of devices; only the NULL for "none". Returns what must stay alive."""
    if not options.devices:
        return None
    known = {device.name: device.handle for device in library.devices() if device.is_gpu}
    handles = []
    for name in () if options.devices == ("none",) else options.devices:
        if name not in known:
            raise UsageError(
                f"There is no device {name!r}.",
                f"This build can offload to: {', '.join(known) or 'nothing (it has no GPU support, or finds no GPU)'}.",
                "Leave -dev out, or use -dev none.",
            )
        handles.append(known[name])
    array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
    params.devices = ctypes.cast(array, ctypes.c_void_p)
    return array


def _set_overrides(params: Any, options: ModelOptions) -> Any:
    """-ot: tensors whose name matches go to a buffer type. Returns what must stay alive."""
    if not options.override_tensor:
        return None
    array = (_BufferOverride * (len(options.override_tensor) + 1))()
    for entry, (pattern, name) in zip(array, options.override_tensor, strict=False):
        if name not in library.buffer_types():
            raise UsageError(f"There is no buffer type {name!r}.", f"This build has: {', '.join(library.buffer_types())}.", "")
        entry.pattern, entry.buft = pattern.encode(), library.buffer_types()[name]
    params.tensor_buft_overrides = ctypes.cast(array, ctypes.c_void_p)
    return array


def _set_metadata(params: Any, options: ModelOptions) -> Any:
    """--override-kv. Returns what must stay alive."""
    if not options.override_kv:
        return None
    array = (llama_cpp.llama_model_kv_override * (len(options.override_kv) + 1))()
    for entry, (key, value) in zip(array, map(read_override, options.override_kv), strict=False):
        entry.key = key.encode()
        match value:
            case bool():
                entry.tag, entry.value.val_bool = _KV_BOOL, value
            case int():
                entry.tag, entry.value.val_i64 = _KV_INT, value
            case float():
                entry.tag, entry.value.val_f64 = _KV_FLOAT, value
            case str():
                entry.tag, entry.value.val_str = _KV_STR, value.encode()
    params.kv_overrides = array
    return array


def read_override(text: str) -> tuple[str, int | float | bool | str]:
    """KEY=TYPE:VALUE, as llama.cpp's string_parse_kv_override reads it. Raises UsageError."""
    key, _, rest = text.partition("=")
    kind, _, value = rest.partition(":")
    try:
        if not key or max(len(key.encode()), len(value.encode())) > _KV_TEXT_MAX:
            raise ValueError(text)
        return key, _KV_READ[kind](value)
    except (ValueError, KeyError):
        raise UsageError(
            f"--override-kv {text!r} cannot be read.",
            "It takes KEY=TYPE:VALUE, TYPE one of int, float, bool, str; key and value of at most 127 bytes.",
            "For example: --override-kv tokenizer.ggml.add_bos_token=bool:false",
        ) from None


def _metadata(handle: int) -> dict[str, str]:
    """The GGUF's scalar metadata, as llama.cpp spells the values."""

    def text(read: Any, i: int) -> str:
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = read(handle, i, buffer, size)
            if n < size:
                return buffer.value.decode("utf-8", "replace")
            size = n + 1

    return {
        text(llama_cpp.llama_model_meta_key_by_index, i): text(llama_cpp.llama_model_meta_val_str_by_index, i)
        for i in range(llama_cpp.llama_model_meta_count(handle))
    }
