"""A model's cache of one sequence: passes, rows of logits, truncation."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import StrEnum
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np
import psutil

from specdec_cli.decoding.contracts import PassAborted, PassResult, Rows
from specdec_cli.errors import BackendError
from specdec_cli.llama import faults, library
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import CacheType, ContextOptions, FlashAttention, RopeScaling

_FLASH = {FlashAttention.AUTO: -1, FlashAttention.OFF: 0, FlashAttention.ON: 1}
_ROPE = {RopeScaling.NONE: 0, RopeScaling.LINEAR: 1, RopeScaling.YARN: 2}
_CACHE = {
    CacheType.F32: llama_cpp.GGML_TYPE_F32,
    CacheType.F16: llama_cpp.GGML_TYPE_F16,
    CacheType.BF16: 30,  # GGML_TYPE_BF16, which llama-cpp-python does not name
    CacheType.Q8_0: llama_cpp.GGML_TYPE_Q8_0,
    CacheType.Q4_0: llama_cpp.GGML_TYPE_Q4_0,
    CacheType.Q4_1: llama_cpp.GGML_TYPE_Q4_1,
    CacheType.IQ4_NL: llama_cpp.GGML_TYPE_IQ4_NL,
    CacheType.Q5_0: llama_cpp.GGML_TYPE_Q5_0,
    CacheType.Q5_1: llama_cpp.GGML_TYPE_Q5_1,
}
_NO_SLOT, _ABORTED = 1, 2  # llama_decode's positive answers
_PIECE_S = 0.5  # a GPU pass cannot be aborted, so a prompt piece there stays under this
_SMALLEST_PIECE = 32
_STEADY_PIECE = 128  # on a GPU under --exact, where the clock may not choose


class RollbackKind(StrEnum):
    """How a cache can go back."""

    TAIL = "tail"  # any number of tokens
    NONE = "none"


class Context:
    """A cache over a model; implements decoding's Target. close() frees it.

    n_rows: logits rows that one pass may ask for. steady: prompt pieces have a fixed length on every device.
    Raises ModelFileError when llama.cpp cannot make it.
    """

    def __init__(
        self, model: Model, options: ContextOptions, interrupt: Interrupt, *, n_rows: int, steady: bool = False
    ) -> None:
        self.model = model
        self.options = options
        self.n_cached = 0
        self._interrupt = interrupt
        params = _context_params(options, interrupt, n_rows)
        library.clear_log()
        with interrupt.calling_back():
            self.handle = llama_cpp.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise faults.context_failed(model.role, model.options.path.name, options.n_ctx)
        self._memory = llama_cpp.llama_get_memory(self.handle)
        self._attach_adapters()
        self.n_ctx = int(llama_cpp.llama_n_ctx_seq(self.handle))
        self.n_vocab = model.vocabulary.n_tokens
        n_pass = min(int(llama_cpp.llama_n_batch(self.handle)), int(llama_cpp.llama_n_ubatch(self.handle)))
        self.max_pass = min(n_rows, n_pass)
        self.max_piece = min(n_pass, _STEADY_PIECE) if steady and model.on_gpu else n_pass
        self._piece_is_fixed = steady or not model.on_gpu
        self._batch = llama_cpp.llama_batch_init(n_pass, 0, 1)
        self._token, self._pos, self._logits = _batch_views(self._batch, n_pass)

    @property
    def n_threads(self) -> tuple[int, int]:
        """Threads for passes of one token and of more, read back from the context."""
        return int(llama_cpp.llama_n_threads(self.handle)), int(llama_cpp.llama_n_threads_batch(self.handle))

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        """One pass with a row of logits for each token, or for the last only. See Target.decode."""
        n_rows = 1 if last_only else len(tokens)
        if n_rows > self.max_pass:
            raise BackendError(f"A pass of {n_rows} rows was asked for.", f"This context gives {self.max_pass}.")
        started_s = perf_counter()
        self._pass(tokens, n_rows)
        rows = self._rows(n_rows)
        return PassResult(rows, perf_counter() - started_s, len(tokens))

    def feed(self, tokens: Sequence[int]) -> float:
        """One pass without logits; returns seconds. See Target.feed."""
        started_s = perf_counter()
        self._pass(tokens, 0)
        llama_cpp.llama_synchronize(self.handle)
        seconds = perf_counter() - started_s
        if not self._piece_is_fixed and len(tokens) >= _SMALLEST_PIECE:
            n_fit = max(int(len(tokens) * _PIECE_S / seconds), _SMALLEST_PIECE)
            self.max_piece = min(self.max_piece, 1 << (n_fit.bit_length() - 1))
            self._piece_is_fixed = True
        return seconds

    def keep(self, n: int) -> None:
        """Truncate the cache to its first n tokens, and check that it is so. See Target.keep."""
        if n == self.n_cached:
            return
        if not 0 <= n < self.n_cached or not self._truncate(n):
            raise BackendError(
                f"The cache of the {self.model.role} did not go back to {n} tokens from {self.n_cached}.",
                "Models with a recurrent state or a small sliding-window cache cannot undo tokens.",
                "Run it without a draft: --draft none.",
            )
        self.n_cached = n

    def clear(self) -> None:
        """Empty the cache."""
        llama_cpp.llama_memory_clear(self._memory, False)
        self.n_cached = 0

    def close(self) -> None:
        if self.handle:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self.handle)
            self.handle = 0

    def _pass(self, tokens: Sequence[int], n_rows: int) -> None:
        """llama_decode on tokens, asking for the last n_rows rows. A pass that fails or is aborted leaves no tokens behind."""
        n = len(tokens)
        if self._interrupt.requested:
            raise PassAborted
        if not 0 < n <= self._token.size or self.n_cached + n > self.n_ctx:
            raise BackendError(
                f"A pass of {n} tokens after {self.n_cached} does not fit.",
                f"The context holds {self.n_ctx} tokens and a pass {self._token.size}.",
            )
        self._token[:n] = tokens
        self._pos[:n] = range(self.n_cached, self.n_cached + n)
        self._logits[: n - n_rows] = 0
        self._logits[n - n_rows : n] = 1
        self._batch.n_tokens = n
        status = llama_cpp.llama_decode(self.handle, self._batch)
        if status == 0:
            self.n_cached += n
            return
        if not self._truncate(self.n_cached):
            self.clear()
        if status == _ABORTED or self._interrupt.requested:
            raise PassAborted
        raise BackendError(
            f"llama.cpp could not pass {n} tokens through the {self.model.role}.",
            f"llama_decode answered {status}: {library.last_error() or 'no reason given'}",
            "Try a smaller context (-c)." if status == _NO_SLOT else "Try -fa off, fewer GPU layers (-ngl) or -ub 128.",
        )

    def _truncate(self, n: int) -> bool:
        done = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, n, -1))
        return done and int(llama_cpp.llama_memory_seq_pos_max(self._memory, 0)) == n - 1

    def _rows(self, n: int) -> Rows:
        """A view (n, n_vocab) of llama.cpp's own output buffer; waits for a GPU."""
        pointer = llama_cpp.llama_get_logits(self.handle)
        return np.ctypeslib.as_array(pointer, shape=(n, self.n_vocab))

    def _attach_adapters(self) -> None:
        adapters = self.model.adapters
        if not adapters:
            return
        handles = (ctypes.c_void_p * len(adapters))(*(adapter.handle for adapter in adapters))
        scales = (ctypes.c_float * len(adapters))(*(adapter.scale for adapter in adapters))
        if llama_cpp.llama_set_adapters_lora(self.handle, handles, len(adapters), scales) != 0:
            raise BackendError("llama.cpp did not accept the LoRA adapters.", library.last_error())


def find_rollback(context: Context, token: int) -> RollbackKind:
    """Try it: pass tokens, undo, pass them again, and compare the rows. Leaves the cache empty."""
    tokens = [token] * min(2, context.max_piece)
    try:
        context.feed([token])
        before = context.decode(tokens, last_only=True).rows[-1].copy()
        context.keep(1)
        after = context.decode(tokens, last_only=True).rows[-1]
        same = bool(np.abs(after - before).max() <= 0.1 * max(float(before.std()), 1e-3))
    except BackendError:
        same = False
    context.clear()
    return RollbackKind.TAIL if same else RollbackKind.NONE


def physical_cores() -> int:
    """Cores without hyper-threads: llama.cpp's own default for threads."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def _context_params(options: ContextOptions, interrupt: Interrupt, n_rows: int) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = options.n_ctx
    params.n_batch = options.n_batch
    params.n_ubatch = min(options.n_ubatch, options.n_batch)
    # Fewer outputs than a batch holds: the graph's buffer for logits is n_outputs_max x n_vocab floats.
    params.n_outputs_max = min(n_rows, options.n_batch)
    params.n_threads = options.n_threads or physical_cores()
    params.n_threads_batch = options.n_threads_batch or params.n_threads
    params.flash_attn_type = _FLASH[options.flash_attn]
    params.type_k = _CACHE[options.type_k]
    params.type_v = _CACHE[options.type_v]
    if options.rope_scaling is not None:
        params.rope_scaling_type = _ROPE[options.rope_scaling]
    params.rope_freq_base = options.rope_freq_base
    params.rope_freq_scale = 1.0 / options.rope_scale if options.rope_scale else options.rope_freq_scale
    params.yarn_orig_ctx = options.yarn_orig_ctx
    params.yarn_ext_factor = options.yarn_ext_factor
    params.yarn_attn_factor = options.yarn_attn_factor
    params.yarn_beta_slow = options.yarn_beta_slow
    params.yarn_beta_fast = options.yarn_beta_fast
    params.swa_full = True  # a window cache of the window's size forgets what a truncation should bring back
    params.no_perf = True
    params.abort_callback = llama_cpp.ggml_abort_callback(interrupt.poll)
    params.abort_callback_data = interrupt.address
    return params


def _batch_views(batch: Any, n: int) -> tuple[Any, Any, Any]:
    """numpy views of a batch's token, pos and logits arrays (n,); every token belongs to sequence 0."""
    for i in range(n):
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
    return tuple(np.ctypeslib.as_array(field, shape=(n,)) for field in (batch.token, batch.pos, batch.logits))  # type: ignore[return-value]
