"""A terminal to look at, and streams that are terminals, pipes or broken."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyte

WRAPPED = -1  # the place in a row of cells that says that the row goes on in the next one: "full" or "early"


class Cells(pyte.HistoryScreen):  # type: ignore[misc]
    """pyte's screen, which here also wraps before a wide character that does not fit, and knows which rows it wrapped."""

    def draw(self, data: str) -> None:
        for char in data:
            n_cells = pyte.screens.wcwidth(char)
            full = self.cursor.x >= self.columns
            if n_cells > 0 and self.cursor.x + n_cells > self.columns:
                self.cursor.x = self.columns
                self.buffer[self.cursor.y][WRAPPED] = self.default_char._replace(data="full" if full else "early")
            super().draw(char)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        for y in range(self.cursor.y, self.lines):
            self.buffer[y].pop(WRAPPED, None)


class Terminal:
    """A terminal that wraps its text anew when it is resized, as most of today's do, or that leaves and cuts it."""

    def __init__(self, columns: int = 40, lines: int = 10, *, rewraps: bool = True) -> None:
        self._rewraps = rewraps
        self._open(columns, lines)

    def _open(self, columns: int, lines: int) -> None:
        self.cells = Cells(columns, lines, history=100_000)
        self._stream = pyte.Stream(self.cells)

    @property
    def size(self) -> tuple[int, int]:
        return self.cells.columns, self.cells.lines

    @property
    def cursor(self) -> tuple[int, int]:
        """Row, counted from the first one ever, and column."""
        return len(self.cells.history.top) + self.cells.cursor.y, self.cells.cursor.x

    def feed(self, text: str) -> None:
        """Show text as it comes out of the terminal's line discipline."""
        self._stream.feed(text.replace("\n", "\r\n"))

    def stream(self, encoding: str = "utf-8") -> io.TextIOWrapper:
        """A text stream that writes to this terminal."""
        return stream(lambda data: self.feed(data.decode(encoding)), tty=True, encoding=encoding)

    def rows(self) -> list[str]:
        """All rows, those scrolled away included, without blanks at their ends and without empty rows at the end."""
        return trimmed(self._text(row, 0, self.cells.columns).rstrip() for row in self._all())

    def lines(self) -> list[str]:
        """What the rows say when those that were wrapped are joined again."""
        return trimmed(line.rstrip() for line in self._joined(self._all()).split("\n"))

    def resize(self, columns: int, lines: int) -> None:
        """Change the size: the cursor stays at its character, what does not fit scrolls away or is cut."""
        if not self._rewraps:
            self.cells.resize(lines, columns)
            self.cells.cursor.x = min(self.cells.cursor.x, columns - 1)
            return
        rows, (at, x) = self._all(), self.cursor
        before = self._joined([*rows[:at]]) + self._text(rows[at], 0, x)
        rest = self._text(rows[at], x, self.cells.columns)
        rest = rest if WRAPPED in rows[at] else rest.rstrip() + "\n"
        after = (rest + self._joined(rows[at + 1 :])).rstrip()
        self._open(columns, lines)
        self.feed(before)
        at, x = self.cursor
        self.feed(after)
        history = self.cells.history.top
        while len(history) > at:  # the cursor's row stays in sight, and rows at the bottom are lost
            for y in range(lines - 1, 0, -1):
                self.cells.buffer[y] = self.cells.buffer[y - 1]
            self.cells.buffer[0] = history.pop()
        self.cells.cursor.y, self.cells.cursor.x = at - len(history), x

    def _all(self) -> list[Any]:
        return [*self.cells.history.top, *(self.cells.buffer[y] for y in range(self.cells.lines))]

    def _joined(self, rows: list[Any]) -> str:
        columns = self.cells.columns
        return "".join(
            self._text(row, 0, columns) if WRAPPED in row else self._text(row, 0, columns).rstrip() + "\n" for row in rows
        )

    @staticmethod
    def _text(row: Any, first: int, end: int) -> str:
        """Characters of a row, without the cell that a wide one did not fit in."""
        if WRAPPED in row and row[WRAPPED].data == "early":
            end -= 1
        return "".join(row[x].data if x in row else " " for x in range(first, end))


def trimmed(rows: Any) -> list[str]:
    """Rows without the empty ones at the end."""
    kept = list(rows)
    while kept and not kept[-1]:
        kept.pop()
    return kept


class _Device(io.RawIOBase):
    def __init__(self, take: Callable[[bytes], object], tty: bool) -> None:
        self._take = take
        self._tty = tty

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._tty

    def write(self, data: Any) -> int:
        self._take(bytes(data))
        return len(data)


def stream(take: Callable[[bytes], object], *, tty: bool = False, encoding: str = "utf-8") -> io.TextIOWrapper:
    """A text stream over a device that hands its bytes to a function."""
    return io.TextIOWrapper(io.BufferedWriter(_Device(take, tty)), encoding=encoding, newline="\n")


def raising(error: OSError) -> io.TextIOWrapper:
    """A text stream whose device fails each write."""

    def fail(_data: bytes) -> None:
        raise error

    return stream(fail)
