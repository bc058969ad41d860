"""What a header says about a model, as the JSON document of inspect. Whatever it says is cut where it would have no end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.parse import StringArray, Value
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from specdec_cli.pairing.ends import end_tokens
from specdec_cli.pairing.family import family
from specdec_cli.settings import metadata

Json = dict[str, Any]

MODEL = "model"  # the kind of a file that can be run
_LONGEST = 2_000  # characters of a text
_LONGEST_TEMPLATE = 1_000_000
_MOST = 64  # of anything that a file can have many of
_SPECIAL = re.compile(r"tokenizer\.ggml\.(\w+)_token_id")
_THINKING = ("enable_thinking", "<think>", "thinking", "reasoning_content", "<|channel|>")


def described(header: Header) -> Json:
    """Everything that inspect knows about a model."""
    kind, refusal = kind_of(header)
    words, reason = _vocabulary(header)
    n_parameters = header.n_parameters
    return {
        "schema": "specdec.inspect/1",
        "name": _cut(header.name),
        "label": header.label,
        "reference": header.reference,
        "files": [str(path) for path in header.paths],
        "bytes": header.size,
        "kind": kind,
        "runs": refusal is None,
        "reason": refusal.why or refusal.what if refusal else None,
        "fix": refusal.fix if refusal else None,
        "gguf_version": header.version,
        "architecture": _cut(header.architecture),
        "parameters": n_parameters,
        "active_parameters": _active(header),
        "quantisation": header.quantisation,
        "bits_per_weight": round(8 * header.n_tensor_bytes / n_parameters, 2) if n_parameters else None,
        "tensor_types": _tensor_types(header),
        "layers": header.n_layers,
        "heads": _numbers(header.own("attention.head_count")),
        "kv_heads": _numbers(header.own("attention.head_count_kv")),
        "embedding": header.n_embd,
        "feed_forward": _numbers(header.own("feed_forward_length")),
        "experts": header.own_integer("expert_count"),
        "experts_used": _numbers(header.own("expert_used_count")),
        "trained_context": header.n_ctx_train,
        "sliding_window": header.own_integer("attention.sliding_window"),
        "rope": _rope(header),
        "vocabulary": _counted(words) if words is not None else None,
        "vocabulary_missing": None if words is not None else reason,
        "special_tokens": _special(header, words) if words is not None else [],
        "chat_template": _template(header),
        "sampling": _under(header, metadata.PREFIX),
        "licence": _cut(header.text("general.license") or header.text("general.license.name")),
        "base_models": _base_models(header),
        "adapter": _under(header, "adapter.") or None,
        "projector": (_under(header, "clip.") or None) if header.architecture == "clip" else None,
    }


def kind_of(header: Header) -> tuple[str, ModelFileError | None]:
    """What the file is in a few words, and why it cannot be run, if it cannot."""
    try:
        check_runnable(header)
    except ModelFileError as error:
        return _kind(error.what, header), error
    return MODEL, None


def listed_tokens(words: Vocabulary, ids: Iterable[int]) -> list[Json]:
    """Tokens with their types and texts."""
    return [
        {"id": token, "type": TokenType(int(words.types[token])).name.lower(), "text": _cut(words.shown(token))}
        for token in ids
    ]


def without_subject(sentence: str, path: Path, reference: str | None = None) -> str:
    """What a sentence says about a file, where the file has been named already."""
    for subject in (reference, path):
        sentence = sentence.removeprefix(f"The model file {subject} ")
    return sentence


def _kind(sentence: str, header: Header) -> str:
    """The words for what a file is, out of the sentence that refuses it."""
    words = re.split(r",| \(", without_subject(sentence, header.path, header.reference).rstrip("."))[0]
    return re.sub(r"^(is|holds) (an?|the) ", "", words).removeprefix("is ")


def _vocabulary(header: Header) -> tuple[Vocabulary | None, str | None]:
    try:
        return vocabulary(header), None
    except ModelFileError as error:
        return None, error.why


def _counted(words: Vocabulary) -> Json:
    counts = Counter(TokenType(int(kind)).name.lower() for kind in words.types)
    return {
        "kind": _cut(words.model),
        "pre_tokenizer": _cut(words.pre),
        "family": family(words),
        "tokens": words.n_vocab,
        "types": {kind: counts[kind] for kind in sorted(counts)},
        "merges": len(words.merges) if words.merges is not None else None,
        "add_bos": words.add_bos,
        "add_eos": words.add_eos,
    }


def _special(header: Header, words: Vocabulary) -> list[Json]:
    """The tokens that the file gives a part to, and all others that end a text."""
    ends = end_tokens(header, words)
    roles: list[tuple[str | None, int]] = []
    for key, token in header.metadata.items():
        match = _SPECIAL.fullmatch(key)
        if match and isinstance(token, int) and 0 <= token < words.n_vocab:
            roles.append((match[1], token))
    roles += [(None, token) for token in sorted(ends.difference(token for _, token in roles))]
    return [
        {"role": _cut(role), "id": token, "text": _cut(words.shown(token)), "ends": token in ends}
        for role, token in roles[:_MOST]
    ]


def _active(header: Header) -> int | None:
    """Parameters that one token uses; None where all do."""
    n_experts, used = header.own_integer("expert_count") or 0, _numbers(header.own("expert_used_count"))
    n_used = max(used, default=0) if isinstance(used, list) else used
    if not n_used or not n_experts > n_used > 0:
        return None
    n_routed = sum(tensor.n_elements for tensor in header.tensors if "_exps." in tensor.name)
    return header.n_parameters - n_routed + n_routed * n_used // n_experts


def _tensor_types(header: Header) -> list[Json]:
    n_tensors, n_bytes = Counter[str](), Counter[str]()
    for tensor in header.tensors:
        n_tensors[tensor.type_name] += 1
        n_bytes[tensor.type_name] += tensor.n_bytes
    return [{"type": name, "tensors": n_tensors[name], "bytes": n} for name, n in n_bytes.most_common()]


def _rope(header: Header) -> Json:
    return {
        "base": _plain(header.own("rope.freq_base")),
        "scaling": _plain(header.own("rope.scaling.type")),
        "factor": _plain(header.own("rope.scaling.factor")),
        "original_context": header.own_integer("rope.scaling.original_context_length"),
    }


def _template(header: Header) -> Json | None:
    text = header.chat_template
    if text is None:
        return None
    prefix = "tokenizer.chat_template."
    return {
        "characters": len(text),
        "tools": "tools" in text,
        "thinking": any(word in text for word in _THINKING),
        "others": [_cut(key.removeprefix(prefix)) for key in header.metadata if key.startswith(prefix)][:_MOST],
        "text": text[:_LONGEST_TEMPLATE],
    }


def _base_models(header: Header) -> list[str]:
    n = header.integer("general.base_model.count") or 0
    found = []
    for i in range(min(max(n, 0), _MOST)):
        prefix = f"general.base_model.{i}."
        told = header.text(f"{prefix}repo_url") or header.text(f"{prefix}name")
        if told:
            found.append(_cut(told) or "")
    return found


def _under(header: Header, prefix: str) -> Mapping[str, object]:
    """Values whose keys begin so, by the rest of their keys."""
    keys = [key for key in header.metadata if key.startswith(prefix)]
    return {str(_cut(key.removeprefix(prefix))): _plain(header.metadata[key]) for key in keys[:_MOST]}


def _numbers(value: Value | None) -> Any:
    """A number; of an array, which has one for each layer, all of them."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return [int(one) for one in value[:_LONGEST]]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(value: Value | None) -> object:
    """A value of the metadata as JSON has it."""
    match value:
        case float():
            return float(metadata.as_text(value))
        case str():
            return _cut(value)
        case StringArray():
            return [_cut(item.decode("utf-8", errors="backslashreplace")) for item in value[:_MOST]]
        case np.ndarray():
            return value[:_MOST].tolist()
    return value


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... ({len(text) - _LONGEST:,} characters more)"
