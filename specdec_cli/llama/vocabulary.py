"""A loaded model's vocabulary: text to ids, ids to bytes, and which ids are special."""

from __future__ import annotations

import ctypes
from functools import cached_property

import llama_cpp

_TOKEN_NONE = -1


class Vocabulary:
    """Lives as long as its model. Token texts are cached as they are asked for."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(handle)
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of the text. add_special: with BOS (and EOS) where the model asks for it; parse_special: control tokens that
        are spelled out in the text become themselves."""
        data = text.encode("utf-8", "replace")
        n_max = len(data) + 8
        while True:
            ids = (llama_cpp.llama_token * n_max)()
            n = llama_cpp.llama_tokenize(self.handle, data, len(data), ids, n_max, add_special, parse_special)
            if n >= 0:
                return list(ids[:n])
            n_max = -n

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for; none for a control token."""
        found = self._pieces.get(token)
        if found is None:
            found = self._pieces[token] = self._piece(token, special=False)
        return found

    def spelling(self, token: int) -> str:
        """A token as a person writes it, control tokens spelled out; empty for no token."""
        return self._piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    @property
    def bos(self) -> int:
        """Beginning of sequence; -1 where there is none."""
        return int(llama_cpp.llama_vocab_bos(self.handle))

    @property
    def eos(self) -> int:
        return int(llama_cpp.llama_vocab_eos(self.handle))

    @property
    def add_bos(self) -> bool:
        return bool(llama_cpp.llama_vocab_get_add_bos(self.handle)) and self.bos != _TOKEN_NONE

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Every end-of-generation id, by llama.cpp's rule (llama_vocab_is_eog)."""
        is_end, handle = llama_cpp.llama_vocab_is_eog, self.handle
        return frozenset(token for token in range(self.n_tokens) if is_end(handle, token))

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        """Ids that the GGUF says must never be sampled (tokenizer.ggml.suppress_tokens)."""
        n = ctypes.c_int32()
        ids = llama_cpp.llama_vocab_get_suppress_tokens(self.handle, ctypes.byref(n))
        return tuple(ids[i] for i in range(n.value))

    def _piece(self, token: int, *, special: bool) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = llama_cpp.llama_token_to_piece(self.handle, token, buffer, size, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            size = -n
