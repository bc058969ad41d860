"""Tells what a reasoning model thinks from what it answers, while the text streams."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What a piece of text is."""

    THINKING = "thinking"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of what a model wrote."""

    part: Part
    text: str


@dataclass(frozen=True, slots=True)
class Tags:
    """What a model writes around its thinking. Without a close, open is written before an answer and is no part of it."""

    open: str
    close: str = ""


_DEFAULT = Tags("<think>", "</think>")
TAGS = (
    Tags("<seed:think>", "</seed:think>"),
    Tags("<mm:think>", "</mm:think>"),
    Tags("<think:opensource>", "</think:opensource>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<|inner_prefix|>", "<|inner_suffix|>"),
    Tags("<|channel>thought\n", "<channel|>"),
    Tags("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"),
    Tags("<|channel|>final<|message|>"),
    Tags("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
)


def tags_of(template: str) -> tuple[Tags, ...]:
    """The tags that a model with this chat template may write.

    <think> always counts: many templates do not mention what their models write by themselves.
    """
    return (_DEFAULT, *(tags for tags in TAGS if _mark(tags.open) in template and _mark(tags.close) in template))


def spellings(tags: tuple[Tags, ...]) -> tuple[str, ...]:
    """Texts that may be control tokens, which a text otherwise leaves out."""
    return tuple(dict.fromkeys(mark for pair in tags for mark in _tokens(pair.open) + _tokens(pair.close)))


def opened_by(prompt: str, tags: tuple[Tags, ...]) -> Tags | None:
    """The tags whose opening one a prompt ends with, so that the model goes on thinking at once."""
    text = prompt.rstrip()
    return next((pair for pair in tags if pair.close and text.endswith(pair.open.rstrip())), None)


class Splitter:
    """Splits text that comes in chunks, the same however it is cut.

    Thinking stands at the beginning of what a model writes, or nowhere: a tag further on is text like any other. Blank space
    around what it thought is left out.
    """

    def __init__(self, tags: tuple[Tags, ...], opened: Tags | None = None) -> None:
        """opened: the tags whose opening one stands in the prompt already."""
        self._tags = tags
        self._within: Tags | None = opened
        self._begun = opened is not None  # whether it is decided how the text begins
        self._bare = opened is not None  # whether blank space that comes now is left out
        self._held = ""

    def feed(self, text: str) -> tuple[Piece, ...]:
        """Take a chunk; returns what is decided now."""
        self._held += text
        found: list[Piece] = []
        if not self._begun:
            self._begin()
        if self._begun and self._within is not None:
            found += self._think(self._within)
        if self._begun and self._within is None:
            found += self._answer()
        return tuple(found)

    def finish(self) -> tuple[Piece, ...]:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        if self._within is not None:
            held = held.rstrip()
        elif self._bare:
            held = held.lstrip()
        if not held:
            return ()
        return (Piece(Part.THINKING if self._within is not None else Part.ANSWER, held),)

    def _begin(self) -> None:
        """Decide how the text begins, as soon as that can be told."""
        text = self._held.lstrip()
        for tags in self._tags:
            if text.startswith(tags.open):
                self._held = text[len(tags.open) :]
                self._begun, self._bare = True, True
                self._within = tags if tags.close else None
                return
        self._begun = not any(tags.open.startswith(text) for tags in self._tags)

    def _think(self, tags: Tags) -> list[Piece]:
        text = self._held.lstrip() if self._bare else self._held
        at = text.find(tags.close)
        if at >= 0:
            self._within, self._held, self._bare = None, text[at + len(tags.close) :], True
            shown = text[:at].rstrip()
        else:
            n_open = next((n for n in range(min(len(tags.close) - 1, len(text)), 0, -1) if text.endswith(tags.close[:n])), 0)
            shown = text[: len(text) - n_open].rstrip()
            self._held = text[len(shown) :]
            self._bare = self._bare and not shown
        return [Piece(Part.THINKING, shown)] if shown else []

    def _answer(self) -> list[Piece]:
        text = self._held.lstrip() if self._bare else self._held
        self._held, self._bare = "", self._bare and not text
        return [Piece(Part.ANSWER, text)] if text else []


def _mark(tag: str) -> str:
    """The part of a tag that a template is searched for: its first token, as templates put the rest together."""
    return _tokens(tag)[0] if tag else ""


def _tokens(tag: str) -> tuple[str, ...]:
    """The parts of a tag that may each be a token: those in brackets, or all of it."""
    parts, start = [], 0
    while (at := tag.find("<", start)) >= 0:
        end = tag.find(">", at) + 1
        parts.append(tag[at:end])
        start = end
    return tuple(parts) or ((tag,) if tag else ())
