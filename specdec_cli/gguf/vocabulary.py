"""A model's vocabulary as its header has it: what the pair gate compares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf import faults
from specdec_cli.gguf.constants import Role, TokenType
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import NumberArray, StringArray

_SPACE_MARK = "\u2581".encode()  # SentencePiece spells a space so
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Tokens and rules of a tokenizer. An id or a switch is None where the file does not say."""

    model: str  # tokenizer.ggml.model: llama (SentencePiece), gpt2 (byte-level BPE), ...
    pre: str | None  # how text is cut before byte-pair merging
    tokens: StringArray
    types: npt.NDArray[np.int32]  # (n_vocab,), values of TokenType
    merges: StringArray | None
    scores: NumberArray | None
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    pad: int | None
    add_bos: bool | None
    add_eos: bool | None

    @property
    def n_vocab(self) -> int:
        return len(self.tokens)

    def piece(self, token: int) -> bytes:
        """What a token writes: the tokenizer's spelling of spaces and bytes undone, as llama.cpp does it."""
        raw, kind = self.tokens[token], int(self.types[token])  # an Enum's lookup inside numpy would swallow Ctrl-C
        byte = _BYTE.fullmatch(raw) if kind == TokenType.BYTE else None
        if byte:
            return bytes([int(byte[1], 16)])
        if kind not in (TokenType.NORMAL, TokenType.UNDEFINED):
            return raw
        text = raw.decode("utf-8", errors="surrogateescape")
        byte_of = _byte_of_char()
        if self.model == "gpt2" and all(char in byte_of for char in text):
            return bytes(byte_of[char] for char in text)
        return raw.replace(_SPACE_MARK, b" ")

    def shown(self, token: int) -> str:
        """A token as a person can read it, in quotes."""
        return repr(self.piece(token).decode("utf-8", errors="backslashreplace"))


def vocabulary(header: Header, role: Role | None = None) -> Vocabulary:
    """The vocabulary of a model. Raises ModelFileError where llama.cpp would refuse or misread it."""
    subject = Subject(header.path, role, header.reference)
    model = header.text("tokenizer.ggml.model")
    tokens = header.strings("tokenizer.ggml.tokens")
    if model is None or tokens is None or not len(tokens):
        raise ModelFileError(
            f"{subject} has no vocabulary.",
            f"{'It names no tokenizer' if model is None else f'tokenizer.ggml.model is {model!r}'}, and there are"
            f" {len(tokens) if tokens is not None else 'no'} tokens.",
            "Use a model for text; a part of another model cannot run alone.",
        )
    n = len(tokens)
    add_bos, add_eos = header.metadata.get("tokenizer.ggml.add_bos_token"), header.metadata.get("tokenizer.ggml.add_eos_token")
    return Vocabulary(
        model=model,
        pre=header.text("tokenizer.ggml.pre"),
        tokens=tokens,
        types=_types(header, n, subject),
        merges=header.strings("tokenizer.ggml.merges"),
        scores=_scores(header, n, subject),
        bos=_id(header, "bos", n),
        eos=_id(header, "eos", n),
        eot=_id(header, "eot", n),
        eom=_id(header, "eom", n),
        pad=_id(header, "padding", n),
        add_bos=add_bos if isinstance(add_bos, bool) else None,
        add_eos=add_eos if isinstance(add_eos, bool) else None,
    )


def _types(header: Header, n: int, subject: Subject) -> npt.NDArray[np.int32]:
    types = header.metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return np.full(n, TokenType.NORMAL, np.int32)
    if not isinstance(types, np.ndarray) or types.dtype != np.int32:
        raise faults.damaged(subject, "tokenizer.ggml.token_type is not an array of 32-bit integers.")
    if len(types) < n:
        raise faults.damaged(subject, f"It has {n:,} tokens and {len(types):,} token types.")
    known = (types >= TokenType.UNDEFINED) & (types <= TokenType.BYTE)
    return np.where(known, types, TokenType.UNDEFINED)[:n].astype(np.int32)


def _scores(header: Header, n: int, subject: Subject) -> NumberArray | None:
    scores = header.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, np.ndarray):
        return None
    if len(scores) < n:
        raise faults.damaged(subject, f"It has {n:,} tokens and {len(scores):,} scores.")
    return scores[:n]


def _id(header: Header, name: str, n: int) -> int | None:
    """A special token's id; llama.cpp passes over one that is out of range."""
    token = header.integer(f"tokenizer.ggml.{name}_token_id")
    return token if token is not None and 0 <= token < n else None


@cache
def _byte_of_char() -> dict[str, int]:
    """Byte-level BPE writes each byte as a printable character; this undoes it."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
