"""Whether a file is a model that can write text at all, decided before llama.cpp is asked to load it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf import faults
from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.vocabulary import vocabulary

_TEXT_MODEL = "Give a model that writes text, such as an instruct or base model."
_MAX_LAYERS = 512  # LLAMA_MAX_LAYERS

_sound: set[bytes] = set()  # digests of vocabularies that were looked through


@dataclass(frozen=True, slots=True)
class _Kind:
    what: str
    fix: str


_ENCODER = _Kind("an embedding model", f"It turns text into vectors and writes none. {_TEXT_MODEL}")
_DIFFUSION = _Kind(
    "a diffusion language model", f"It fills in text in no fixed order, so tokens cannot be drafted. {_TEXT_MODEL}"
)
_DRAFT_HEAD = _Kind(
    "a draft head, which only runs on top of the model that it was trained for",
    "Give a whole model as draft, or use --draft ngram, which needs no second model.",
)
_AUDIO = _Kind("an audio model", _TEXT_MODEL)

# Names that files bear which llama.cpp either cannot load alone or gets no next-token logits from. Architectures that do
# run are not listed: llama.cpp itself knows which those are.
_ARCHITECTURES: dict[str, _Kind] = {
    "clip": _Kind(
        "a projector (mmproj), the part of a vision or audio model that reads images or sound",
        "Give the language model that it belongs to.",
    ),
    **dict.fromkeys(
        (
            "bert",
            "modern-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "neo-bert",
            "jina-bert-v2",
            "jina-bert-v3",
            "eurobert",
            "gemma-embedding",
            "llama-embed",
            "t5encoder",
        ),
        _ENCODER,
    ),
    "t5": _Kind("an encoder-decoder model", f"Only decoder models can be run here. {_TEXT_MODEL}"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), _DRAFT_HEAD),
    "wavtokenizer-dec": _AUDIO,
    "controlvector": _Kind("a control vector, which steers another model", "Give that model."),
}

_TYPES: dict[str, _Kind] = {
    "mmproj": _ARCHITECTURES["clip"],
    "adapter": _Kind("a LoRA adapter, which changes another model", "Give that model, and this file with --lora."),
    "imatrix": _Kind("an importance matrix, made for quantising", "Give the model that it was made from."),
}


def is_draft_head(header: Header) -> bool:
    """Whether the file holds a draft head: one of its own architecture, or the prediction layers (MTP) of a larger model."""
    if _ARCHITECTURES.get(header.architecture or "") is _DRAFT_HEAD:
        return True
    names = {tensor.name for tensor in header.tensors} if header.own_integer("nextn_predict_layers") else set()
    return "blk.0.attn_norm.weight" not in names and any(name.endswith(".nextn.eh_proj.weight") for name in names)


def check_runnable(header: Header, role: Role | None = None, *, weights: bool = True) -> None:
    """Refuse a file that is no decoder model, and values on which llama.cpp would end the process.

    weights: refuse a file of a vocabulary only, too. Raises ModelFileError.
    """
    subject = Subject(header.path, role, header.reference)
    kind = _TYPES.get(header.kind or "")
    if header.text("adapter.type") == "control_vector":
        kind = _ARCHITECTURES["controlvector"]
    if kind:
        raise ModelFileError(f"{subject} is {kind.what}.", f"general.type is {header.kind!r}.", kind.fix)
    architecture = header.architecture
    if not architecture:
        raise ModelFileError(
            f"{subject} does not say what kind of model it is.",
            "general.architecture is missing, or is not a text.",
            "Download or convert a model for llama.cpp; a GGUF file of another program cannot be run.",
        )
    kind = _ARCHITECTURES.get(architecture)
    if kind:
        raise ModelFileError(f"{subject} is {kind.what}.", f"Its architecture is {architecture!r}.", kind.fix)
    if is_draft_head(header):
        raise ModelFileError(
            f"{subject} is {_DRAFT_HEAD.what}.",
            f"It holds the prediction layers (MTP) of a {architecture!r} model and none of its others.",
            _DRAFT_HEAD.fix,
        )
    if weights and not header.tensors:
        raise ModelFileError(
            f"{subject} holds a vocabulary only.", "It has no tensors.", "Give the model itself; this file tests tokenizers."
        )
    _check_attention(header, subject)
    _check_sizes(header, subject)
    _check_tokens(header, subject, role)


def _check_attention(header: Header, subject: Subject) -> None:
    pooling = header.own_integer("pooling_type")
    if pooling:
        # Only conversions of embedding and reranking models write a pooling type other than none (0).
        raise ModelFileError(
            f"{subject} is {'a reranking model' if pooling == 4 else 'an embedding model'}.",
            f"{header.architecture}.pooling_type is {pooling}.",
            _ENCODER.fix,
        )
    if header.own("attention.causal") is False:
        raise ModelFileError(
            f"{subject} does not write text from left to right.",
            f"{header.architecture}.attention.causal is false.",
            _TEXT_MODEL,
        )


def _check_sizes(header: Header, subject: Subject) -> None:
    """llama.cpp asserts these, and a failed assert would end the process."""
    n_layers = header.n_layers
    if n_layers is not None and not 1 <= n_layers <= _MAX_LAYERS:
        raise faults.damaged(subject, f"It has {n_layers} layers; llama.cpp takes 1 to {_MAX_LAYERS}.")
    n_experts = header.own_integer("expert_count") or 0
    used = _largest(header.own("expert_used_count"))
    if used > n_experts or (n_experts and not used):
        raise faults.damaged(subject, f"It uses {used} experts of {n_experts}.")
    epsilon = header.own("attention.layer_norm_rms_epsilon")
    if isinstance(epsilon, int | float) and not epsilon >= 0:
        raise faults.damaged(subject, f"Its layer_norm_rms_epsilon is {epsilon}; llama.cpp takes 0 or more.")


def _largest(value: object) -> int:
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
        return int(value.max())
    return value if isinstance(value, int) else 0


def _check_tokens(header: Header, subject: Subject, role: Role | None) -> None:
    """llama.cpp also asserts that no two tokens have the same text. It reads a text up to its first zero byte."""
    if header.text("tokenizer.ggml.model") in ("none", "no_vocab"):
        raise ModelFileError(
            f"{subject} has no vocabulary.", "tokenizer.ggml.model says so.", f"It cannot read or write text. {_TEXT_MODEL}"
        )
    read = vocabulary(header, role)
    # Most models on a machine share a few vocabularies, and a look at every token takes longer than reading the header.
    key = hashlib.blake2b(f"{read.model}\0".encode() + read.tokens.raw).digest()
    if key in _sound:
        return
    tokens = read.tokens.items
    distinct = set(tokens)
    if read.model == "llama" and distinct.isdisjoint((b"<0x0A>", b"\n")):
        raise faults.damaged(
            subject, "Its tokenizer is SentencePiece, which has a token for each byte, but there is no <0x0A>."
        )
    if len(distinct) < len(tokens) or b"" in distinct or b"\0" in b"".join(tokens):
        texts = [token.split(b"\0", 1)[0] for token in tokens]
        named = [text or f"[EMPTY_{i}]".encode() for i, text in enumerate(texts)]
        if twins := _twins(named):
            first, second = twins
            raise faults.damaged(subject, f"Its tokens {first} and {second} have the same text {_quoted(named[first])}.")
    _sound.add(key)


def _twins(texts: Iterable[bytes]) -> tuple[int, int] | None:
    """The first pair of positions with equal texts."""
    seen: dict[bytes, int] = {}
    return next(((seen[text], i) for i, text in enumerate(texts) if seen.setdefault(text, i) != i), None)


def _quoted(token: bytes) -> str:
    return repr(token.decode("utf-8", errors="backslashreplace"))
