"""Token bytes to shown text: incomplete UTF-8 and what may become a stop string are held back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Turns the bytes of tokens into text, the same however they are cut into chunks.

    The stop string whose match is complete first ends the text (of two complete at the same place, the longer); nothing of
    it is shown. Bytes that are no UTF-8 become U+FFFD; a character that the end of the run leaves incomplete is dropped.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.stopped_by: str | None = None
        self._stops = tuple(stop for stop in stops if stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def push(self, data: bytes) -> str:
        """Take the bytes of the next token; returns the text that can be shown now."""
        if self.stopped_by is not None:
            return ""
        return self._show(self._decoder.decode(data))

    def finish(self) -> str:
        """The text that was held back, at the end of the run."""
        held, self._held = self._held, ""
        return held

    def _show(self, text: str) -> str:
        if not self._stops:
            return text
        self._held += text
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            _, at, self.stopped_by = min(found)
            shown, self._held = self._held[:at], ""
            return shown
        n_open = max(_n_open(self._held, stop) for stop in self._stops)
        n_shown = len(self._held) - n_open
        shown, self._held = self._held[:n_shown], self._held[n_shown:]
        return shown


def _n_open(text: str, stop: str) -> int:
    """Length of the longest end of text that is a beginning of stop."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
