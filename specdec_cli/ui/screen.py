"""Text that streams, lines about the run, and a footer under the text, without one disturbing the other.

The text goes to standard output as it is; footer and lines go to standard error. When both are the same terminal:

* The cursor rests at the end of the text. The footer stands on the row below, and is erased before and drawn after each piece
  of text. Drawing first makes sure that this row exists (one line feed that keeps the column, one row up again), so nothing
  scrolls between saving the cursor and restoring it, and no column has to be known: characters on whose width terminals
  disagree, and terminals that rewrap on a resize, do no harm.
* After a character in the last column a terminal waits with the wrap, and moving the cursor or erasing would lose that. So
  nothing of the kind is done there; the footer comes back with the next piece of text. Only for this the column is followed:
  after a resize as two guesses, one for terminals that rewrap and one for those that do not.
* Text with control characters that steer the terminal ends the footer, as nobody knows where the cursor is after it. After
  a carriage return it is away until the line ends.
* A line about the run waits until the text is at the start of a line, so that it never stands within one.

When standard output is a file, the footer stands alone on its row. When it is a pipe, whoever reads it may write to the same
terminal (`| tee`), so the footer goes once the text begins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from specdec_cli.ui.output import STYLING, ErrorOut, TextOut, is_file, same_terminal, visible

STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
WHOLE = re.compile(rf"{STYLING.pattern}|.", re.DOTALL)  # what must not be cut in two
TO_FOOTER = "\x1bD\x1b[A\x1b7\x1b[B\r"  # make sure that a row is below, save the cursor, go there
BACK = "\x1b8"
ERASE = "\x1b[J"  # to the end of the screen: a footer that a resize has wrapped takes several rows
TAB = 8
DIM = Style(dim=True)


def terminal_size(stream: TextIO | None) -> tuple[int, int]:
    """Columns and lines of the terminal behind a stream; 80 and 24 where there is none."""
    try:
        size = os.get_terminal_size(stream.fileno()) if stream is not None else None
    except (OSError, ValueError):
        size = None
    return (size.columns or 80, size.lines or 24) if size is not None else (80, 24)


def advance(column: int, text: str, columns: int) -> int:
    """The column after text, in a terminal that wraps: columns while a wrap is pending, more where it cannot be told."""
    for char in text:
        if char == "\n":
            column = 0
        elif column > columns or char == "\r" or (char == "\t" and column == columns):
            column = columns + 1  # text is written over text, or terminals disagree; so it stays to the end of the line
        elif char == "\t":
            column = min((column // TAB + 1) * TAB, columns - 1)
        else:
            n_cells = cell_len(char)
            column = column + n_cells if column + n_cells <= columns else n_cells
    return column


class Screen:
    """Standard output and standard error of one process."""

    def __init__(
        self,
        stdout: TextIO | None,
        stderr: TextIO | None,
        *,
        dim: bool = False,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._out = TextOut(stdout)
        self._err = ErrorOut(stderr)
        self._size = size or (lambda: terminal_size(stderr))
        self._dim = dim
        self._shared = same_terminal(stdout, stderr)
        self._stays = self._shared or is_file(stdout)  # whether the footer may stay while there is text
        self._waiting: list[str] = []  # lines until the text is at the start of one
        self._footer = ""
        self._drawn = False
        self._gone = False  # the footer, until the text has ended
        self._steered = False  # the text has moved the cursor: its place is not known any more
        self._row_text = ""  # what the text has put on its last line
        self._places = [0]  # columns the cursor may be in; of two, the first in a terminal that rewraps
        self._columns = self._size()[0]

    @property
    def columns(self) -> int:
        return self._size()[0]

    def text(self, text: str) -> None:
        """Write text to standard output. Raises OutputClosed, SpecdecError."""
        if not text:
            return
        if not self._stays:
            self._footer, self._gone = "", True
        self._measure()
        self._put(self._uncover(text))
        self._release()
        self._draw()

    def line(self, text: str) -> None:
        """Write whole lines to standard error, as soon as they do not stand within a line of the text."""
        self._waiting.append(text)
        self._release()
        self._draw()

    def footer(self, text: str) -> None:
        """Show one line under the text, in place of the one shown before."""
        if self._gone:
            return
        self._footer = " ".join(visible(text).split())
        if not text:
            self._uncover("")
        self._draw()

    def end(self, *, complete: bool) -> None:
        """Take the footer away and end the text. Raises OutputClosed, SpecdecError."""
        self._footer = ""
        self._measure()
        self._uncover("")
        try:
            self._out.end(complete=complete)
        finally:
            self._row_text, self._places, self._steered, self._gone = "", [0], False, False
            self._uncover("")
            self._release()

    def _uncover(self, text: str) -> str:
        """Erase the footer; returns the text that is still to be written.

        Where a resize may have left a wrap pending, text is written over the footer until that is resolved.
        """
        if not self._drawn:
            return text
        whole = WHOLE.findall(text)
        n_over = 0
        while self._places[0] >= self._columns and n_over < len(whole):
            self._put(whole[n_over])
            n_over += 1
        if self._places[0] < self._columns:
            in_place = n_over > 0 or not self._row_text
            self._err.write(ERASE if in_place else f"{TO_FOOTER}{ERASE}{BACK}")
            self._drawn = False
        return "".join(whole[n_over:])

    def _release(self) -> None:
        """Write the lines that wait, if the text is at the start of a line or elsewhere."""
        if self._waiting and not self._row_text:
            self._uncover("")
            self._err.write("".join(f"{line}\n" for line in self._waiting))
            self._waiting.clear()

    def _put(self, text: str) -> None:
        """Write text, and keep track of its last line. Where the footer has no part in it that line counts as empty."""
        text = self._out.write(text)
        if not self._shared:
            return
        plain = STYLING.sub("", text)
        self._steered = self._steered or STEERING.search(plain) is not None
        _, newline, rest = plain.rpartition("\n")
        before, places = ("", [0]) if newline else (self._row_text, self._places)
        self._row_text = before + rest
        self._places = [advance(place, rest, self._columns) for place in places]

    def _measure(self) -> None:
        """See whether the terminal has been resized, and where the cursor may be now."""
        columns = self._size()[0]
        if columns != self._columns:
            self._places = [advance(0, self._row_text, columns), min(self._places[-1], columns - 1)]
            self._columns = columns

    def _draw(self) -> None:
        self._measure()
        if not self._footer or self._steered or max(self._places) >= self._columns or self._size()[1] < 3:
            return
        footer = set_cell_size(self._footer, min(cell_len(self._footer), self._columns - 1))
        if self._dim:
            footer = DIM.render(footer)
        self._drawn = True
        self._err.write(f"{TO_FOOTER}{footer}{ERASE}{BACK}" if self._row_text else f"\r{footer}{ERASE}\r")
