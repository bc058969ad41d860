"""Draft heads (EAGLE-3, DFlash, MTP, Gemma 4's assistant): which target one was made for, compared from its header."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import is_draft_head
from specdec_cli.pairing.facts import ModelFacts
from specdec_cli.pairing.findings import Finding, Rule, Verdict, finding


@dataclass(frozen=True, slots=True)
class DraftHead:
    """What a head needs of its target. None where its header does not say."""

    what: str  # its kind, as people call it
    server_type: str  # what --spec-type of llama.cpp's server calls it
    n_embd: int | None  # width of the target's hidden states
    layers: tuple[int, ...]  # of the target, that it looks into
    n_vocab: int | None  # of the target
    n_own_vocab: int | None  # tokens that it drafts, where a table (d2t) maps them to the target's
    architecture: str | None  # of the target
    base_model: str | None


def read_head(header: Header) -> DraftHead | None:
    """The head that a file holds; None where it holds none."""
    if not is_draft_head(header):
        return None
    what, server_type, n_embd, architecture = "MTP", "draft-mtp", header.n_embd, header.architecture
    if header.architecture == "eagle3":
        what, server_type, n_embd, architecture = "EAGLE-3", "draft-eagle3", header.own_integer("target_hidden_size"), None
    elif header.architecture == "dflash":
        markov = any(tensor.name == "markov_w1.weight" for tensor in header.tensors)
        what, server_type, architecture = ("DSpark", "draft-dspark", None) if markov else ("DFlash", "draft-dflash", None)
    elif header.architecture == "gemma4-assistant":
        what, n_embd, architecture = "Gemma 4 assistant", header.own_integer("embedding_length_out"), "gemma4"
    layers = header.own("target_layers")
    table = next((tensor.shape[0] for tensor in header.tensors if tensor.name == "d2t" and tensor.shape), None)
    return DraftHead(
        what=what,
        server_type=server_type,
        n_embd=n_embd,
        layers=tuple(layers.tolist()) if isinstance(layers, np.ndarray) and layers.dtype.kind in "iu" else (),
        n_vocab=header.n_vocab,
        n_own_vocab=table,
        architecture=architecture,
        base_model=header.text("general.base_model.0.name"),
    )


def judge_head(head: DraftHead, target: ModelFacts) -> list[Finding]:
    """That a head is none of the drafters here, and whether it belongs to this target."""
    found = [
        finding(
            Rule.HEAD,
            Verdict.INCOMPATIBLE,
            f"The draft is a draft head ({head.what}), which only runs on top of the model that it was trained for.",
            "specdec runs whole draft models, not heads; llama.cpp's server runs this one.",
            "draft",
        )
    ]
    wrong, right = _compared(head, target)
    if wrong:
        text = f"It does not belong to this target: {'; '.join(wrong)}."
        found.append(finding(Rule.HEAD_FIT, Verdict.INCOMPATIBLE, text, "No program can run it on this target.", "draft"))
    elif right:
        text = f"It fits this target: {'; '.join(right)}."
        found.append(finding(Rule.HEAD_FIT, Verdict.COMPATIBLE, text, _origin(head, target), "draft"))
    return found


def fits(head: DraftHead, target: ModelFacts) -> bool:
    """Whether nothing in the headers speaks against the two."""
    return not _compared(head, target)[0]


def _compared(head: DraftHead, target: ModelFacts) -> tuple[list[str], list[str]]:
    """What does not fit, and what does."""
    wrong: list[str] = []
    right: list[str] = []
    if head.architecture is not None and target.architecture is not None:
        text = f"it was made for a {head.architecture!r} model, the target is {target.architecture!r}"
        (right if head.architecture == target.architecture else wrong).append(text)
    if head.n_embd is not None and target.n_embd is not None:
        text = f"it takes hidden states of width {head.n_embd:,}, the target's have {target.n_embd:,}"
        (right if head.n_embd == target.n_embd else wrong).append(text)
    if head.layers and target.n_layers is not None:
        n_layers = target.n_layers - target.n_inner_heads
        text = f"it looks into layers {', '.join(map(str, head.layers))} of {n_layers}"
        # The layer behind the last one is the output of the whole.
        (right if min(head.layers) >= 0 and max(head.layers) <= n_layers else wrong).append(text)
    if head.n_vocab is not None and target.n_vocab is not None:
        text = f"its vocabulary has {head.n_vocab:,} tokens, the target's {target.n_vocab:,}"
        (right if head.n_vocab == target.n_vocab else wrong).append(text)
    if head.n_own_vocab is not None and target.n_vocab is not None:
        text = f"it drafts {head.n_own_vocab:,} of the target's {target.n_vocab:,} tokens"
        (right if head.n_own_vocab <= target.n_vocab else wrong).append(text)
    return wrong, right


def _origin(head: DraftHead, target: ModelFacts) -> str:
    if head.base_model is None:
        return "Widths can agree by chance: it does not say which model it was trained for."
    return f"It says it was trained for {head.base_model!r}; the target calls itself {target.name!r}."
