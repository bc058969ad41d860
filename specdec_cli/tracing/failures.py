"""Where drafts fail: refused tokens by kind, and those that cost most."""

from __future__ import annotations

import heapq
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from specdec_cli.tracing.form import AnyLine, Chosen, Drafted, RoundLine, RunLine

_N_CONTEXT = 80  # characters before a refusal that are kept
_CODE = frozenset("{}[]()<>=+*/\\|&^%$#@~`_")


class TokenKind(StrEnum):
    """What a token is, by its text."""

    WORD_START = "word start"
    WORD_INSIDE = "word inside"
    NUMBER = "number"
    PUNCTUATION = "punctuation"
    CODE = "code symbol"
    WHITESPACE = "whitespace"
    SPECIAL = "special"
    OTHER = "other"  # no token of the target, half a character, a pictograph


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused draft token, and what stood there in its place."""

    run: int
    round: int
    context: str  # the text before it
    drafted: Drafted
    chosen: Chosen | None
    kind: TokenKind
    n_lost: int  # draft tokens that were thrown away: it, and those after it


@dataclass(slots=True)
class Failures:
    """What was found."""

    judged: Counter[TokenKind] = field(default_factory=Counter)
    accepted: Counter[TokenKind] = field(default_factory=Counter)
    dearest: list[Refusal] = field(default_factory=list)

    @property
    def n_refused(self) -> int:
        return self.judged.total() - self.accepted.total()


def failures(lines: Iterable[AnyLine], n: int) -> Failures:
    """Refusals by kind, and the n dearest: those that threw most draft tokens away, then those of the surest drafter."""
    found = Failures()
    heap: list[tuple[int, float, int, Refusal]] = []
    context, n_seen = "", 0
    for line in lines:
        if isinstance(line, RunLine):
            context = ""
        if not isinstance(line, RoundLine):
            continue
        for i, token in enumerate(line.drafted[: line.accepted + 1]):
            kind = kind_of(token.text, special=token.special)
            found.judged[kind] += 1
            found.accepted[kind] += i < line.accepted
        accepted = "".join(token.text for token in line.drafted[: line.accepted])
        context = (context + accepted)[-_N_CONTEXT:]
        if (refused := line.refused) is not None and n > 0:
            n_lost = len(line.drafted) - line.accepted
            kind = kind_of(refused.text, special=refused.special)
            refusal = Refusal(line.run, line.index, context, refused, line.chosen, kind, n_lost)
            n_seen += 1
            entry = (n_lost, refused.peak or 0.0, -n_seen, refusal)
            if len(heap) < n:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
        context = (context + (line.chosen.text if line.chosen is not None else ""))[-_N_CONTEXT:]
    found.dearest = [refusal for *_, refusal in sorted(heap, reverse=True)]
    return found


def kind_of(text: str, *, special: bool = False) -> TokenKind:
    """The kind of a token. A leading blank begins a word."""
    bare = text.strip()
    if special:
        return TokenKind.SPECIAL
    if text and not bare:
        return TokenKind.WHITESPACE
    if bare.isalpha():
        return TokenKind.WORD_START if text[0].isspace() else TokenKind.WORD_INSIDE
    if any(char.isdigit() for char in bare) and not any(char.isalpha() for char in bare):
        return TokenKind.NUMBER
    if bare.startswith("\\x") or not bare:
        return TokenKind.OTHER
    if not _CODE.isdisjoint(bare):
        return TokenKind.CODE
    if all(unicodedata.category(char).startswith("P") for char in bare):
        return TokenKind.PUNCTUATION
    if any(char.isalpha() for char in bare):
        return TokenKind.WORD_START if text[0].isspace() else TokenKind.WORD_INSIDE
    return TokenKind.OTHER
