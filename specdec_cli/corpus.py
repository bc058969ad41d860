"""The text of --ngram-corpus: from a file to the target's tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import PromptError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.options import Listener
from specdec_cli.textfile import decoded, read_bytes

MAX_TOKENS = 2**20  # more would take seconds to load
_PIECE = 2**16  # characters that are tokenised at a time
_FIX = "Use --ngram-corpus FILE, with a text file."
_LONG_S = 1.0


def corpus_text(file: Path) -> str:
    """What a corpus file says. Raises PromptError."""
    text = decoded(read_bytes(file, "corpus file", _FIX), f"The corpus file {file}")
    if text is None:
        raise PromptError(f"The corpus file {file} is empty.", "There is nothing to copy from.", "Leave --ngram-corpus out.")
    return text


def corpus_tokens(
    text: str, file: Path, tokenize: Callable[[str], list[int]], listener: Listener, interrupt: Interrupt
) -> list[int]:
    """The tokens of a corpus, MAX_TOKENS at the most; says what it left out. Raises PassAborted."""
    began, tokens, at = time.perf_counter(), list[int](), 0
    while at < len(text) and len(tokens) < MAX_TOKENS:
        if interrupt.requested:
            raise PassAborted
        listener.progress(f"reading the corpus {file.name}", at / len(text))
        line_end = text.find("\n", at + _PIECE, at + 2 * _PIECE)
        end = line_end if line_end >= 0 else at + _PIECE
        tokens += tokenize(text[at:end])
        at = end
    seconds = time.perf_counter() - began
    if at < len(text) or len(tokens) > MAX_TOKENS:
        share = min(at, len(text)) / len(text) * MAX_TOKENS / len(tokens)
        listener.notice(f"Only the first {MAX_TOKENS:,} tokens of the corpus {file.name} count ({share:.0%} of it).")
    if seconds > _LONG_S:
        listener.notice(f"Reading the corpus {file.name} took {seconds:.1f} s ({min(len(tokens), MAX_TOKENS):,} tokens).")
    return tokens[:MAX_TOKENS]
