"""--show-draft: text that shows where each token came from.

Accepted draft tokens stand in [+ ], with | between neighbours of one round; the token that replaces a refused one in [~ ];
the one that a fully accepted round adds in [* ]. Tokens of rounds without a draft carry no mark. Colours only repeat that.

A character whose bytes come from several tokens belongs to the token that completes it. Control characters are spelled out.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from rich.color import ColorSystem
from rich.style import Style

from specdec_cli.decoding.contracts import Ended, Kind, PromptPass, Round
from specdec_cli.decoding.loop import Event
from specdec_cli.ui.output import visible


@dataclass(frozen=True, slots=True)
class Mark:
    """A way to mark tokens."""

    sign: str
    style: Style
    meaning: str


ACCEPTED = Mark("+", Style(color="green"), "accepted draft tokens, | between them")
REFUSED = Mark("-", Style(color="yellow"), "refused draft tokens")
RECOVERED = Mark("~", Style(color="red"), "recovered: in place of a refused draft token")
BONUS = Mark("*", Style(color="cyan"), "bonus: after a draft that was accepted whole")
KINDS = {Kind.RECOVERED: RECOVERED, Kind.BONUS: BONUS}


@dataclass(frozen=True, slots=True)
class _Token:
    """A token as the text shows it."""

    text: str
    round: int
    mark: Mark | None


def legend() -> str:
    """What the marks mean, in one line."""
    return "; ".join(f"[{mark.sign} ] {mark.meaning}" for mark in (ACCEPTED, RECOVERED, BONUS)) + "; no mark: no draft"


def marked(events: Iterable[Event], piece: Callable[[int], bytes], *, colour: bool) -> Iterator[Event]:
    """The events of a run, with marks in the text of rounds. piece: the bytes of a token, as the run itself uses them.

    The shown text decides what is shown here: a token appears once all of it has been shown, and one that a stop string cuts
    appears as far as it was shown, at the end.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    waiting: deque[_Token] = deque()
    n_shown = 0  # characters of the shown text that belong to tokens still waiting
    for event in events:
        if isinstance(event, PromptPass):
            yield event
            continue
        if isinstance(event, Round):
            waiting.extend(_tokens(event, lambda token: decoder.decode(piece(token))))
        n_shown += len(event.text)
        ready = []
        while waiting and len(waiting[0].text) <= n_shown:
            token = waiting.popleft()
            n_shown -= len(token.text)
            ready.append(token)
        if isinstance(event, Ended) and waiting and n_shown:
            ready.append(replace(waiting[0], text=waiting[0].text[:n_shown]))
        yield replace(event, text=_render(ready, colour))


def _tokens(done: Round, decode: Callable[[int], str]) -> Iterator[_Token]:
    for i, token in enumerate(done.emitted):
        mark = ACCEPTED if i < done.n_accepted else KINDS[done.kind] if done.n_drafted else None
        yield _Token(decode(token), done.index, mark)


def _render(tokens: Iterable[_Token], colour: bool) -> str:
    shown = []
    for (_, mark), group in groupby((token for token in tokens if token.text), lambda token: (token.round, token.mark)):
        if mark is None:
            shown.append("".join(token.text for token in group))
            continue
        text = f"[{mark.sign}{'|'.join(visible(token.text) for token in group)}]"
        shown.append(mark.style.render(text, color_system=ColorSystem.STANDARD) if colour else text)
    return "".join(shown)
