"""Which tokens end a generation, by llama.cpp's own rule (llama_vocab::impl::load), worked out on a header."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.vocabulary import Vocabulary

# Texts that end a generation wherever they stand in a vocabulary.
_END_TEXTS = frozenset(
    text.encode()
    for text in (
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
    )
)

# Roles in filling in the middle whose tokens end a generation too: the key's name, and the texts that are looked for where
# the file does not say.
_FILL_TEXTS: dict[str, tuple[bytes, ...]] = {
    "fim_pad": (b"<|fim_pad|>", b"<fim-pad>", b"<fim_pad>", b"<PAD>", b"[PAD]"),
    "fim_rep": (b"<|fim_repo|>", b"<|repo_name|>", b"<fim-repo>", b"<REPO>", b"<reponame>"),
    "fim_sep": (b"<|file_sep|>",),
}

# tokenizer.ggml.model -> the end token of a file that names none
_DEFAULT_EOS = {"llama": 2, "gpt2": 11, "hybriddna": 11, "whitespace": 11, "t5": 1, "plamo2": 2}

_LOOKED_FOR = _END_TEXTS.union(*_FILL_TEXTS.values())


def end_tokens(header: Header, vocabulary: Vocabulary) -> frozenset[int]:
    """Every end-of-generation id. Where several texts would do for one role in filling in, llama.cpp takes the one that its
    hash table happens to list first; here all of them count.
    """
    n = vocabulary.n_vocab
    spelled: Sequence[bytes] = vocabulary.tokens.items
    if b"\0" in b"".join(spelled):  # llama.cpp reads a text up to its first zero byte
        spelled = [text.split(b"\0", 1)[0] for text in spelled]
    found = {text: token for token, text in enumerate(spelled) if text in _LOOKED_FOR}
    ends = {token for text, token in found.items() if text in _END_TEXTS}
    for name, texts in _FILL_TEXTS.items():
        given = header.integer(f"tokenizer.ggml.{name}_token_id")
        if given is not None and 0 <= given < n:
            ends.add(given)
        else:
            ends.update(found[text] for text in texts if text in found)
    eos = vocabulary.eos if vocabulary.eos is not None else _DEFAULT_EOS.get(vocabulary.model)
    ends.update(token for token in (eos, vocabulary.eot, vocabulary.eom) if token is not None and token < n)
    return frozenset(ends - _kept_as_text(vocabulary, ends))


def _kept_as_text(vocabulary: Vocabulary, ends: set[int]) -> set[int]:
    """Tokens that others beside them show to be no end: <|end|> of harmony and solar, </s> of Gemma 4 and PLaMo."""
    texts = {vocabulary.tokens[token]: token for token in ends}
    calls = b"<|call|>" in texts or b"<|calls|>" in texts
    kept = set()
    if b"<|end|>" in texts and calls and (b"<|return|>" in texts or b"<|flush|>" in texts):
        kept.add(texts[b"<|end|>"])
    if b"</s>" in texts and (b"<|tool_response>" in texts or b"<|plamo:eos|>" in texts):
        kept.add(texts[b"</s>"])
    return kept
