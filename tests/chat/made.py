"""Turns made up for tests."""

from __future__ import annotations

from specdec_cli.chat.talk import Document, Figures, ModelName, Turn
from specdec_cli.decoding.contracts import FinishReason

MODELS = (ModelName("target", "target.gguf", 1000), ModelName("draft", "draft.gguf", 100))


def turn(
    question: str,
    answer: str,
    *,
    thinking: str = "",
    ids: tuple[int, ...] = (5, 6, 7),
    documents: tuple[Document, ...] = (),
    finish: FinishReason = FinishReason.END,
) -> Turn:
    return Turn(
        question,
        documents,
        answer,
        thinking,
        ids,
        finish,
        MODELS,
        Figures(n_prompt=20, n_reused=12, n_passed=8, n_emitted=3, tokens_per_pass=1.5, ttft_s=0.25, n_context=23, n_ctx=64),
        seed=4,
        at="2026-01-02T03:04:05+00:00",
    )
