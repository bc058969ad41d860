"""Markdown that is rendered while it streams: finished blocks are written for good, the unfinished one is drawn anew.

What is on the screen at the end is what rendering the whole text at once gives, wherever the text was cut. A block is finished
once a complete line of text has begun another one: nothing that follows can change it then. Definitions of references,
which could, are text here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TextIO

from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.markdown import Markdown

from specdec_cli.ui.output import STYLING, TextOut, can_steer, colour_allowed, visible
from specdec_cli.ui.render import rendered_lines
from specdec_cli.ui.screen import terminal_size

REFRESH_S = 0.1  # shortest time between two drawings of an unfinished block
_NEWLINE = re.compile(r"\r\n?")
_PARSER = MarkdownIt().enable("strikethrough").enable("table").disable("reference")


class _Markdown(Markdown):
    def __init__(self, text: str, *, colour: bool) -> None:
        super().__init__(text, hyperlinks=False, code_theme="ansi_dark" if colour else "bw")
        self.parsed = _PARSER.parse(text)


def rendered(text: str, *, colour: bool, columns: int) -> list[str]:
    """The lines of a markdown text. Control characters in it are spelled out."""
    if not text.strip():
        return []
    return rendered_lines(_Markdown(_clean(text), colour=colour), colour=colour, columns=columns)


class MarkdownStream:
    """A markdown text that grows.

    push() returns lines that are final and lines that may still change; finish() the last final ones.
    """

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._before = ""  # the finished block before the open text: whether a blank line follows depends on it
        self._open = ""

    def push(self, text: str) -> None:
        """Take more of the text."""
        self._open += text

    def settled(self, columns: int) -> list[str]:
        """Lines of the blocks that were finished since the last call."""
        lines: list[str] = []
        while (end := _end_of_first_block(self._open)) is not None:
            block, self._open = self._open[:end], self._open[end:]
            lines += self._new_lines(block, columns)
            self._before = block
        return lines

    def unsettled(self, columns: int) -> list[str]:
        """Lines of the block that is still open."""
        return self._new_lines(self._open, columns)

    def _new_lines(self, text: str, columns: int) -> list[str]:
        """The lines that a text adds to those of the block before it."""
        before = rendered(self._before, colour=self._colour, columns=columns)
        return rendered(self._before + text, colour=self._colour, columns=columns)[len(before) :]


def _end_of_first_block(text: str) -> int | None:
    """Where the second block begins, if a complete line has begun it."""
    complete = _clean(text[: text.rfind("\n") + 1])
    starts = [token.map[0] for token in _PARSER.parse(complete) if token.level == 0 and token.map is not None]
    if len(starts) < 2:
        return None
    at = 0
    for _ in range(starts[1]):
        at = text.index("\n", at) + 1
    return at


def _clean(text: str) -> str:
    return visible(_NEWLINE.sub("\n", text))


class MarkdownOut:
    """Standard output, a terminal, while markdown streams to it."""

    def __init__(
        self,
        out: TextOut,
        stdout: TextIO | None,
        env: Mapping[str, str],
        size: Callable[[], tuple[int, int]] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._out = out
        self._size = size or (lambda: terminal_size(stdout))
        self._clock = clock
        self._steers = can_steer(stdout, env)
        self._stream = MarkdownStream(colour=colour_allowed(stdout, env))
        self._drawn: list[str] = []  # lines of the open block as they stand on the screen
        self._drawn_s = 0.0

    def push(self, text: str) -> None:
        """Take more of the text, and show it. Raises OutputClosed, SpecdecError."""
        self._stream.push(_NEWLINE.sub("\n", text))
        columns, n_rows = self._size()
        final = self._stream.settled(columns)
        now_s = self._clock()
        if not final and now_s - self._drawn_s < REFRESH_S:
            return
        self._drawn_s = now_s
        # Of a block higher than the screen only the end is drawn: what has scrolled away cannot be drawn anew.
        unfinished = self._stream.unsettled(columns)[-max(n_rows - 1, 1) :] if self._steers else []
        if final or unfinished != self._drawn:
            self._draw(final, unfinished, columns)

    def finish(self) -> None:
        """Write what is left: the text is complete. Raises OutputClosed, SpecdecError."""
        columns, _ = self._size()
        self._draw([*self._stream.settled(columns), *self._stream.unsettled(columns)], [], columns)

    def _draw(self, final: list[str], unfinished: list[str], columns: int) -> None:
        n_back = sum(max(-(-cell_len(STYLING.sub("", line)) // columns), 1) for line in self._drawn)
        back = f"\x1b[{n_back}A\r\x1b[J" if n_back else ""
        self._drawn = unfinished
        self._out.write(back + "".join(f"{line}\n" for line in [*final, *unfinished]))
