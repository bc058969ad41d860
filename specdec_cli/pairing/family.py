"""A short name for what a vocabulary's tokens are, which two models share exactly if they read text alike."""

from __future__ import annotations

import hashlib

import numpy as np

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.vocabulary import Vocabulary
from specdec_cli.pairing.compat import padding

_TEXT = (TokenType.NORMAL, TokenType.BYTE, TokenType.UNDEFINED, TokenType.USER_DEFINED)
_NO_RULE = ("default", "")  # pre-tokenizers that name no family
_KINDS = {"llama": "spm", "gpt2": "bpe"}  # names of tokenizers that people would take for models
_LONGEST = 20  # characters of a name that a file gives itself
_MARK = "\u2581".encode()  # SentencePiece spells a space so

_known: dict[bytes, str] = {}


def family(vocabulary: Vocabulary) -> str:
    """The vocabulary's pre-tokenizer or kind, how many tokens of text it has, and six digits that stand for these.

    Models of one family draft for each other: what differs, if anything, are padding and control tokens. Vocabularies that
    only differ in the pre-tokenizer share number and digits.
    """
    # Most models on a machine share a few vocabularies, and a look at every token takes longer than reading the header.
    key = hashlib.blake2b(vocabulary.tokens.raw + vocabulary.types.tobytes() + vocabulary.model.encode()).digest()
    if key not in _known:
        _known[key] = _counted(vocabulary)
    return f"{_name(vocabulary)} {_known[key]}"


def _counted(vocabulary: Vocabulary) -> str:
    n = vocabulary.n_vocab
    tokens, types = vocabulary.tokens.items, vocabulary.types
    bracketed = np.fromiter((token[:1] in b"<[" for token in tokens), np.bool_, n)  # an empty token too
    spelled = np.isin(types, _TEXT) & ~padding(vocabulary, bracketed, n)
    ids = np.flatnonzero(spelled)
    texts = [tokens[i] for i in ids]
    kinds = (types[ids] == TokenType.BYTE).astype(np.uint8)
    for place in np.flatnonzero(types[ids] == TokenType.USER_DEFINED):
        spelling = _as_normal(vocabulary.model, texts[place])
        if spelling is None:
            kinds[place] = 2
        else:
            texts[place] = spelling
    digest = hashlib.blake2b(vocabulary.model.encode(), digest_size=3)
    digest.update(ids.astype("<i4").tobytes() + kinds.tobytes())
    digest.update(np.fromiter(map(len, texts), "<i4", len(texts)).tobytes() + b"".join(texts))
    return f"{len(ids):,} {digest.hexdigest()}"


def _name(vocabulary: Vocabulary) -> str:
    pre = vocabulary.pre or ""
    name = _KINDS.get(vocabulary.model, vocabulary.model) if pre in _NO_RULE else pre
    return "".join(char if char.isalnum() or char in "-_." else "?" for char in name[:_LONGEST]) or "?"


def _as_normal(model: str, token: bytes) -> bytes | None:
    """How a token of plain text would spell what a user-defined one writes; None where that is not sure.

    Converters differ in which of the two types they give a token, and pairs do not suffer from it.
    """
    if model == "gpt2":  # which writes other bytes than these as other characters
        return token if all(0x21 <= byte <= 0x7E for byte in token) else None
    return None if _MARK in token else token.replace(b" ", _MARK)
