"""The line a person types a turn in: an editor on a terminal, and lines as they come from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from specdec_cli.textfile import decoded
from specdec_cli.ui.output import ErrorOut, can_steer, is_terminal

SIGN = "> "
NEXT_SIGN = "  "  # of the further lines of a turn
LEAVE = "(Ctrl-C again, or Ctrl-D, leaves)"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")  # UTF-16 and UTF-32: their lines cannot be read one by one


@dataclass(frozen=True, slots=True)
class Takes:
    """What may stand behind a command."""

    words: tuple[str, ...] = ()
    files: bool = False


class Line(Protocol):
    """Where turns come from."""

    @property
    def edits(self) -> bool:
        """Whether a person sits at a terminal, and can change what read() is given."""

    def read(self, first: str = "") -> str | None:
        """The next turn; None when there will be none. Raises PromptError.

        first: what stands in the line already. Ctrl-C gives it back: the turn is empty.
        """


def open_line(
    streams: tuple[TextIO | None, TextIO | None, TextIO | None],
    env: Mapping[str, str],
    *,
    commands: Mapping[str, Takes],
    history: Path | None,
    vi: bool,
    whole: bool,
) -> Line:
    """The line for standard input, output and error as they are.

    commands: what is completed after a slash; history: the file that keeps what was typed; whole: a pipe holds one turn.
    """
    stdin, stdout, stderr = streams
    tty = next((stream for stream in (stderr, stdout) if is_terminal(stream)), None)
    if not is_terminal(stdin) or tty is None:
        return PipedLines(stdin, whole=whole)
    if not can_steer(tty, env):
        return PipedLines(stdin, whole=False, sign=ErrorOut(tty))
    return EditedLine(tty, commands, history, vi=vi)


class PipedLines:
    """Lines of standard input as they come. A backslash at the end of one continues the turn on the next.

    sign: where a terminal that can do no more is told that a turn is waited for.
    """

    def __init__(self, stdin: TextIO | None, *, whole: bool, sign: ErrorOut | None = None) -> None:
        self._stdin = stdin
        self._whole = whole
        self._n_read = 0
        self._read_already: list[str] = []
        self._sign = sign
        self._leaving = False
        self.edits = sign is not None

    def read(self, first: str = "") -> str | None:
        """The next turn; see Line. What stands in the line already can only be shown here."""
        if first and self._sign is not None:
            self._sign.write(f"{first}\n")
        while True:
            try:
                return self._turn()
            except KeyboardInterrupt:
                if self._sign is None:
                    raise
                if first:
                    self._sign.write("\n")
                    return ""
                if self._leaving:
                    return None
                self._leaving = True
                self._sign.write(f"\n{LEAVE}\n")

    def _turn(self) -> str | None:
        parts: list[str] = []
        while True:
            if self._sign is not None:
                self._sign.write(NEXT_SIGN if parts else SIGN)
            line = self._line()
            self._leaving = False
            if line is None:
                if self._sign is not None:
                    self._sign.write("\n")
                return "\n".join(parts) if parts else None
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])

    def _line(self) -> str | None:
        """The next line, without its end; with whole all of them."""
        if self._read_already:
            return self._read_already.pop(0)
        if self._stdin is None:
            return None
        data = self._stdin.buffer.read() if self._whole else self._stdin.buffer.readline()
        if not data:
            return None
        self._n_read += 1
        if self._n_read == 1 and not self._whole and data.startswith(_WIDE_MARKS):
            text = decoded(data + self._stdin.buffer.read(), "Standard input") or ""
            first, *self._read_already = text.removesuffix("\n").split("\n")
            return first
        place = "Standard input" if self._whole else f"Line {self._n_read} of standard input"
        return (decoded(data, place) or "").removesuffix("\n")


class EditedLine:
    """A line with an editor: history, several lines, completion, the keys of emacs or vi."""

    def __init__(self, tty: TextIO, commands: Mapping[str, Takes], history: Path | None, *, vi: bool) -> None:
        self._err = ErrorOut(tty)
        self._leaving = False
        self.edits = True
        output = create_output(stdout=tty)
        if isinstance(output, Vt100_Output):
            output.enable_cpr = False  # nothing here needs the cursor's place, and a late answer would be typed into the line
        self._session: PromptSession[str] = PromptSession(
            SIGN,
            prompt_continuation=NEXT_SIGN,
            multiline=True,
            vi_mode=vi,
            completer=SlashCompleter(commands),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".txt",
            history=TypedHistory(history) if history is not None else InMemoryHistory(),
            key_bindings=self._keys(),
            input=create_input(sys.stdin),
            output=output,
        )

    def read(self, first: str = "") -> str | None:
        """The next turn; see Line."""
        while True:
            try:
                text = self._session.prompt(default=first)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if first:
                    return ""
                if self._leaving:
                    return None
                self._leaving = True
                self._err.write(f"{LEAVE}\n")
                continue
            self._leaving = False
            return text.encode("utf-8", "replace").decode("utf-8")  # bytes that are no text come as lone surrogates

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=typing)
        def enter(event: KeyPressEvent) -> None:
            """Send the turn; after a backslash at its end, go on in a new line."""
            buffer = event.current_buffer
            if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=typing)
        def alt_enter(event: KeyPressEvent) -> None:
            """A new line in the turn."""
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        def clear(event: KeyPressEvent) -> None:
            """Clear the line, and say how to leave; the next time, in an empty line, leave."""
            self._leaving = self._leaving and not event.current_buffer.text
            event.current_buffer.reset()
            event.app.exit(exception=KeyboardInterrupt)

        return keys


class TypedHistory(FileHistory):
    """What was typed, in a file that only its owner may read. What begins with a space is not kept."""

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError:
            return []

    def append_string(self, string: str) -> None:
        if string.strip() and not string.startswith(" "):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        file = Path(os.fsdecode(self.filename))
        with suppress(OSError):  # a history that cannot be kept costs the history
            file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            super().store_string(string)


class SlashCompleter(Completer):
    """Completes commands, and what stands behind them."""

    def __init__(self, commands: Mapping[str, Takes]) -> None:
        self._commands = commands
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The names a command may have, or the words and files it may take."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, space, rest = text[1:].partition(" ")
        if not space:
            yield from (Completion(f"/{each}", -len(text)) for each in self._commands if each.startswith(name))
            return
        found = [takes for each, takes in self._commands.items() if each == name or each.startswith(name)]
        exact = self._commands.get(name)
        if exact is None and len(found) != 1:
            return
        takes = exact or found[0]
        rest = rest.lstrip()
        yield from (Completion(word, -len(rest)) for word in takes.words if word.startswith(rest))
        if takes.files:
            yield from self._files.get_completions(Document(rest, len(rest)), complete_event)


@contextmanager
def keys_held(stdin: TextIO | None) -> Iterator[None]:
    """Keep what is typed meanwhile from being shown in the middle of an answer; it stands in the next line."""
    if sys.platform == "win32" or stdin is None or not is_terminal(stdin):
        yield
        return
    import termios

    descriptor = stdin.fileno()
    before = termios.tcgetattr(descriptor)
    held = termios.tcgetattr(descriptor)
    held[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, held)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
