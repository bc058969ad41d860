"""Server-sent events out of a stream of bytes, whatever the pieces in which the bytes come."""

from __future__ import annotations

import codecs
from collections.abc import Iterator


class EventParser:
    """Takes pieces of a stream and gives the data of each event that is complete. Comments and other fields are passed over.

    An event without its blank line at the end of the stream is incomplete, as the standard has it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._after_return = False  # a line feed that comes next belongs to the line that has ended
        self._at_start = True

    def feed(self, piece: bytes) -> Iterator[str]:
        text = self._decoder.decode(piece)
        if text and self._at_start:
            text = text.removeprefix("\ufeff")
            self._at_start = False
        if text and self._after_return:
            text = text.removeprefix("\n")
            self._after_return = False
        if not text:
            return
        # Not splitlines(): it would also end a line at the separators that JSON leaves unescaped.
        *ended, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._after_return = text.endswith("\r")
        for line in ended:
            self._line.append(line)
            whole = "".join(self._line)
            self._line.clear()
            if whole:
                self._take(whole)
            elif self._data:
                yield "\n".join(self._data)
                self._data.clear()
        self._line.append(rest)

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        # Old servers of llama.cpp send faults as a field of that name.
        if field in ("data", "error"):
            self._data.append(value.removeprefix(" ") if field == "data" else f'{{"error":{value}}}')
