"""What was said: the turns of a conversation as plain data, and the messages that a chat template takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specdec_cli.decoding.contracts import FinishReason

Message = dict[str, str]

_FENCE = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class Document:
    """A text that goes with a question."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model that took part, as far as it can be told again in a later run."""

    role: str  # target or draft
    label: str  # its file's name
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What a turn cost. Rates are None where nothing was counted."""

    n_prompt: int = 0  # tokens of everything that was said until then, the question included
    n_reused: int = 0  # of these, taken over from the target's cache
    n_passed: int = 0  # of these, passed through the target
    n_fed: int = 0  # tokens that the draft model had to catch up on
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    tokens_per_pass: float | None = None
    tokens_per_s: float | None = None
    speed_up: float | None = None  # against plain passes as they were measured on this machine
    ttft_s: float | None = None
    n_context: int = 0  # tokens of the context in use after it
    n_ctx: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer."""

    question: str
    documents: tuple[Document, ...]
    answer: str
    thinking: str  # what a reasoning model wrote before its answer
    ids: tuple[int, ...]  # every token that was generated, thinking and end token included
    finish: FinishReason
    models: tuple[ModelName, ...] = ()
    figures: Figures = Figures()
    seed: int = 0
    at: str = ""  # when it ended: ISO 8601, UTC

    @property
    def is_answered(self) -> bool:
        """Whether there is anything of an answer. A turn stopped before its first token is not sent again."""
        return bool(self.ids)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation. n_dropped: how many of the oldest turns are not sent any more, for lack of room."""

    system: str | None = None
    turns: tuple[Turn, ...] = ()
    n_dropped: int = 0

    @property
    def sent(self) -> tuple[Turn, ...]:
        """The turns that the next question is sent with."""
        return tuple(turn for turn in self.turns[self.n_dropped :] if turn.is_answered)


def message_text(question: str, documents: tuple[Document, ...]) -> str:
    """What is sent as the person's message: each document under its name, fenced, then the question."""
    return "\n\n".join([*(f"File: {document.name}\n{fenced(document.text)}" for document in documents), question])


def fenced(text: str) -> str:
    """The text between two lines of backticks, more of them than the text itself has in a row."""
    n = 1 + max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * n
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def messages(system: str | None, turns: tuple[Turn, ...], newest: str) -> list[Message]:
    """The talk as a chat template takes it, up to the newest message.

    What a model thought goes beside its answer, not into it: templates that want it again take it from there, all others
    leave it out.
    """
    found: list[Message] = [{"role": "system", "content": system}] if system is not None else []
    for turn in turns:
        answer = {"role": "assistant", "content": turn.answer}
        if turn.thinking:
            answer["reasoning_content"] = turn.thinking
        found += [{"role": "user", "content": message_text(turn.question, turn.documents)}, answer]
    return [*found, {"role": "user", "content": newest}]
