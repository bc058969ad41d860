"""A conversation as Markdown, the texts in it untouched."""

from __future__ import annotations

import re

from specdec_cli.chat.talk import Talk, fenced
from specdec_cli.decoding.contracts import FinishReason

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
# What in Markdown goes on past blank lines, until it is closed.
_OPENS_HTML = re.compile(r"^ {0,3}<(?:!--|\?|![A-Za-z\[]|(?:script|pre|style|textarea)\b)", re.IGNORECASE | re.MULTILINE)
_ENDS = {
    FinishReason.INTERRUPTED: "stopped",
    FinishReason.LENGTH: "ended by the limit of tokens",
    FinishReason.CONTEXT: "ended by the full context",
    FinishReason.STOP: "ended by a stop string",
    FinishReason.GRAMMAR: "ended by the grammar",
}


def markdown(talk: Talk, title: str = "Chat") -> str:
    """The whole talk. What the person wrote, and files and thinking, are fenced; answers stand as the models wrote them, so a
    rule and a bold line part the turns, which no heading or fence inside an answer can take for its own."""
    parts = [f"# {_one_line(title)}"]
    if talk.system is not None:
        parts += ["**System**", fenced(talk.system)]
    for number, turn in enumerate(talk.turns, 1):
        parts += ["---", f"**Question {number}**"]
        for document in turn.documents:
            parts += [f"File: {_code(document.name)}", fenced(document.text)]
        parts.append(fenced(turn.question))
        if turn.thinking:
            parts += ["**Thinking**", fenced(turn.thinking)]
        target = next((model.label for model in turn.models if model.role == "target"), "")
        notes = [note for note in (_code(target) if target else "", _ENDS.get(turn.finish, "")) if note]
        parts += [f"**Answer {number}**" + (f" ({', '.join(notes)})" if notes else ""), _closed(turn.answer)]
    return "\n\n".join(parts) + "\n"


def _closed(answer: str) -> str:
    """An answer as it is; fenced where it would swallow what comes after it: a fence or a comment that was left open."""
    fence = ""
    for line in answer.splitlines():
        found = _FENCE.match(line)
        if found is None:
            continue
        mark, rest = found.groups()
        if not fence:
            fence = "" if mark[0] == "`" and "`" in rest else mark
        elif mark.startswith(fence) and not rest.strip():
            fence = ""
    return fenced(answer) if fence or _OPENS_HTML.search(answer) else answer


def _code(text: str) -> str:
    """A name as code, on one line."""
    return f"`{_one_line(text).replace('`', chr(39))}`"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
