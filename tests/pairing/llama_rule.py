"""llama.cpp's own reading of a vocabulary, and its own rule on pairs (common_speculative_are_compatible), to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import llama_cpp

from specdec_cli.llama import library

MAX_SIZE_DIFFERENCE = 128  # SPEC_VOCAB_MAX_SIZE_DIFFERENCE
N_PASSED_OVER = 5  # SPEC_VOCAB_CHECK_START_TOKEN_ID


@dataclass(frozen=True)
class LlamaVocabulary:
    """What llama.cpp makes of a file's vocabulary."""

    kind: int
    add_bos: bool
    add_eos: bool
    bos: int
    eos: int
    texts: tuple[bytes, ...]
    pieces: tuple[bytes, ...]
    ends: frozenset[int]


def read(path: Path) -> LlamaVocabulary:
    """Load the vocabulary of a file, and nothing else of it."""
    library.start()
    library.clear_log()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model, library.error_lines()
    try:
        vocab = llama_cpp.llama_model_get_vocab(model)
        n = llama_cpp.llama_vocab_n_tokens(vocab)
        return LlamaVocabulary(
            kind=llama_cpp.llama_vocab_type(vocab),
            add_bos=llama_cpp.llama_vocab_get_add_bos(vocab),
            add_eos=llama_cpp.llama_vocab_get_add_eos(vocab),
            bos=llama_cpp.llama_vocab_bos(vocab),
            eos=llama_cpp.llama_vocab_eos(vocab),
            texts=tuple(llama_cpp.llama_vocab_get_text(vocab, i) for i in range(n)),
            pieces=tuple(_piece(vocab, i) for i in range(n)),
            ends=frozenset(i for i in range(n) if llama_cpp.llama_vocab_is_eog(vocab, i)),
        )
    finally:
        llama_cpp.llama_model_free(model)


def accepts(target: LlamaVocabulary, draft: LlamaVocabulary) -> bool:
    """Whether llama.cpp would draft with the pair, by the rule of its common/speculative.cpp."""
    if target.kind != draft.kind:
        return False
    if target.add_bos != draft.add_bos or (target.add_bos and target.bos != draft.bos):
        return False
    if target.add_eos != draft.add_eos or (target.add_eos and target.eos != draft.eos):
        return False
    if abs(len(target.texts) - len(draft.texts)) > MAX_SIZE_DIFFERENCE:
        return False
    pairs = zip(target.texts[N_PASSED_OVER:], draft.texts[N_PASSED_OVER:], strict=False)
    return all(one == other for one, other in pairs)


def _piece(vocab: object, token: int) -> bytes:
    size = 1024
    buffer = (llama_cpp.ctypes.c_char * size)()
    n = llama_cpp.llama_token_to_piece(vocab, token, buffer, size, 0, True)
    assert n >= 0
    return bytes(buffer.raw[:n])
