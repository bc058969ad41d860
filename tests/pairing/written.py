"""Vocabularies that the tests write: two families, and copies of each with one thing changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from specdec_cli.gguf.constants import TokenType
from tests.gguf_files import TINY, write_vocab_gguf

T = TokenType
Token = tuple[str, int]

N_WORDS = 40


@dataclass(frozen=True)
class Written:
    """A vocabulary to be written as a GGUF."""

    tokens: tuple[Token, ...]
    model: str
    pre: str | None = "default"
    extra: Mapping[str, object] = field(default_factory=dict)

    def write(self, path: Path, *, weights: bool = False) -> Path:
        words, types = [text for text, _ in self.tokens], [kind for _, kind in self.tokens]
        return write_vocab_gguf(path, words, types, self.model, self.pre, self.extra, TINY if weights else None)

    def keyed(self, **values: object) -> Written:
        """With other tokenizer keys: eos_token_id=0; None removes one."""
        extra = {**self.extra, **{f"tokenizer.ggml.{name}": value for name, value in values.items()}}
        return replace(self, extra={key: value for key, value in extra.items() if value is not None})

    def grown(self, *tokens: Token) -> Written:
        return replace(self, tokens=(*self.tokens, *tokens))

    def changed(self, at: int, text: str | None = None, kind: int | None = None) -> Written:
        old_text, old_kind = self.tokens[at]
        new = (old_text if text is None else text, old_kind if kind is None else kind)
        return replace(self, tokens=(*self.tokens[:at], new, *self.tokens[at + 1 :]))

    def swapped(self, one: int, other: int) -> Written:
        tokens = list(self.tokens)
        tokens[one], tokens[other] = tokens[other], tokens[one]
        return replace(self, tokens=tuple(tokens))

    def shuffled(self, first: int, last: int) -> Written:
        """The tokens of a range, turned around."""
        return replace(self, tokens=(*self.tokens[:first], *reversed(self.tokens[first:last]), *self.tokens[last:]))

    def padded(self, n: int, kind: int = T.UNUSED) -> Written:
        n_before = len(self.tokens)
        return self.grown(*((f"[PAD{n_before + i}]", kind) for i in range(n)))


def _bytes() -> list[str]:
    """Byte-level BPE's letter for each byte, in its own order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    more = itertools.count(0x100)
    return [letters.get(byte) or chr(next(more)) for byte in range(256)]


def _words(space: str) -> list[Token]:
    return [(f"{space}word{i}", T.NORMAL) for i in range(N_WORDS)]


SPM = Written(
    (
        ("<unk>", T.UNKNOWN),
        ("<s>", T.CONTROL),
        ("</s>", T.CONTROL),
        *((f"<0x{byte:02X}>", T.BYTE) for byte in range(256)),
        *_words("▁"),
        ("▁▁", T.USER_DEFINED),
    ),
    "llama",
    extra={
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
    },
)
N_SPM = len(SPM.tokens)
SPM_WORD = 3 + 256  # id of the first word

_N_BPE = 256 + N_WORDS
BPE = Written(
    (
        *((letter, T.NORMAL) for letter in _bytes()),
        *_words("Ġ"),
        ("<|endoftext|>", T.CONTROL),
        ("<|im_start|>", T.CONTROL),
        ("<|im_end|>", T.CONTROL),
    ),
    "gpt2",
    "qwen2",
    {
        "tokenizer.ggml.bos_token_id": _N_BPE,
        "tokenizer.ggml.eos_token_id": _N_BPE + 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.merges": ["w o", "r d", "Ġ w"],
    },
)
N_BPE = len(BPE.tokens)
BPE_WORD = 256
BPE_CONTROL = _N_BPE

# The same tokens as SPM under the tokenizer of Gemma 4, which cuts text by pairs of letters.
GEMMA4 = replace(SPM, model="gemma4", pre=None).keyed(merges=["w o"])


def names(words: Sequence[str]) -> str:
    """What a parametrised test is called."""
    return "-".join(words)
