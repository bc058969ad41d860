"""How a talk is shown: answers on standard output as they come, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, TextIO

from specdec_cli.chat.conversation import ChatEvent, Finished, Sending, Spoken, TurnReport
from specdec_cli.chat.thinking import Part
from specdec_cli.decoding.contracts import PromptPass
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import SpecdecError
from specdec_cli.ui.chatted import in_rows, progress_bar, sending_notice, stats_line, turn_json
from specdec_cli.ui.document import plain
from specdec_cli.ui.markdown import MarkdownOut
from specdec_cli.ui.output import ErrorOut, TextOut, can_show, can_steer, colour_allowed, visible
from specdec_cli.ui.screen import DIM, Screen
from specdec_cli.ui.sinks import REFRESH_S, footer_text

_LONG_S = 2.0  # a prompt that takes longer is told of before it passes
_BAR = "\u2501"
# What stands around the thinking of every model, whatever its own tags are.
OPEN, CLOSE = "<think>\n", "\n</think>\n"


@dataclass(slots=True)
class Look:
    """What the person wants to see; the talk's commands change it."""

    quiet: bool = False
    live: bool = True
    markdown: bool = False
    hide_thinking: bool = False


class Stage(Protocol):
    """Where a talk is shown. Its notice() and progress() make it a session's listener.

    What shows text raises OutputClosed when nobody reads standard output any more.
    """

    @property
    def look(self) -> Look: ...

    @property
    def colour(self) -> bool:
        """Whether say() may be given colours."""

    @property
    def columns(self) -> int:
        """Columns for say()."""

    def notice(self, sentence: str, /) -> None: ...

    def progress(self, label: str, fraction: float | None, /) -> None: ...

    def say(self, text: str, /) -> None:
        """Show the lines that a command answers with."""

    def aside(self, parts: Sequence[str], /) -> None:
        """Show a line that is there to be overlooked, broken between its parts; nothing where quiet was asked for."""

    def error(self, error: SpecdecError, /, *, of_turn: bool = False) -> None:
        """Show what went wrong. of_turn: in the place of an answer."""

    def event(self, event: ChatEvent, /) -> None:
        """Show an event of a turn."""

    def close(self) -> None:
        """Leave nothing half shown."""


def error_text(error: SpecdecError) -> str:
    """An error as lines."""
    first, *others = (visible(part) for part in (error.what, error.why, error.fix) if part)
    return "\n".join([f"error: {first}", *(f"  {part}" for part in others)])


class TextStage:
    """Text, with a footer and styles where the streams are terminals that allow them."""

    def __init__(
        self,
        look: Look,
        stdout: TextIO | None,
        stderr: TextIO | None,
        env: Mapping[str, str],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.look = look
        self.colour = colour_allowed(stderr, env)
        self._screen = Screen(stdout, stderr, dim=self.colour)
        self._streams, self._env, self._clock = (stdout, stderr), env, clock
        self._steers = look.live and not look.quiet and can_steer(stderr, env)
        self._dims = colour_allowed(stdout, env)
        self._bar = _BAR if can_show(stderr, _BAR, env) else "#"
        self._shown_s = 0.0
        self._waiting: list[str] = []  # notices that came while markdown was drawn
        self._markdown: MarkdownOut | None = None
        self._thinking = False
        self._n_thought = 0
        self._begun = False  # the answer, after its thinking
        self._stats = RunStats()

    @property
    def columns(self) -> int:
        return self._screen.columns

    def notice(self, sentence: str, /) -> None:
        """Tell what was decided, in a sentence."""
        if self.look.quiet:
            return
        line = f"note: {visible(sentence)}"
        if self._markdown is None:
            self._screen.line(line)
        else:
            self._waiting.append(line)

    def progress(self, label: str, fraction: float | None, /) -> None:
        """Show how far something is that comes before the text."""
        self._footer(label if fraction is None else f"{label} {fraction:.0%}", last=fraction is not None and fraction >= 1)

    def say(self, text: str, /) -> None:
        """Show the lines that a command answers with."""
        self._screen.footer("")
        self._screen.line(text)

    def aside(self, parts: Sequence[str], /) -> None:
        """Show a dim line, and on a terminal an empty one after it."""
        if self.look.quiet:
            return
        for row in in_rows(parts, self.columns if self._steers else 0):
            self._screen.line(DIM.render(row) if self.colour else row)
        if self._steers:
            self._screen.line("")

    def error(self, error: SpecdecError, /, *, of_turn: bool = False) -> None:
        """Show what went wrong, after what was shown of an answer."""
        if of_turn:
            self.close()
        self.say(error_text(error))

    def event(self, event: ChatEvent, /) -> None:
        """Show an event of a turn."""
        match event:
            case Sending():
                self._n_thought, self._thinking, self._begun, self._stats = 0, False, False, RunStats()
                self._sending(event)
            case PromptPass():
                bar = progress_bar(event, self._bar, min(24, self.columns // 4))
                self._footer(f"prompt {bar}", last=event.n_done == event.n_total)
            case Spoken():
                self._spoken(event)
            case Finished():
                self._finished(event.report)

    def close(self) -> None:
        """End the text under way, if any, and take the footer away."""
        if self._markdown is not None:
            markdown, self._markdown = self._markdown, None
            markdown.finish()
        self._screen.end(complete=False)
        while self._waiting:
            self._screen.line(self._waiting.pop(0))

    def _sending(self, sending: Sending) -> None:
        if (expected_s := sending.count.expected_s) is not None and expected_s >= _LONG_S and not self._steers:
            self.notice(sending_notice(sending))
        if sending.n_dropped_turns:
            turns = "turn was" if sending.n_dropped_turns == 1 else "turns were"
            self.notice(
                f"The context is full: the {sending.n_dropped_turns} oldest {turns} dropped"
                f" ({sending.n_dropped_tokens} tokens), and the rest is passed again."
            )

    def _spoken(self, spoken: Spoken) -> None:
        for piece in spoken.pieces:
            if piece.part is Part.THINKING:
                self._think(piece.text)
            else:
                self._speak(piece.text)
        if spoken.round is None:
            return
        self._stats.add(spoken.round)
        if self._thinking and self.look.hide_thinking:
            self._n_thought += len(spoken.round.emitted)
            self._footer(f"thinking... {self._n_thought} tokens")
        else:
            self._footer(footer_text(self._stats))

    def _think(self, text: str) -> None:
        if not self.look.hide_thinking:
            self._dimmed(text if self._thinking else f"{OPEN}{text}")
        self._thinking = True

    def _end_thinking(self, close: str) -> None:
        if not self._thinking:
            return
        self._thinking = False
        if self.look.hide_thinking:
            self._screen.footer("")
        else:
            self._dimmed(close)

    def _dimmed(self, text: str) -> None:
        self._screen.text(DIM.render(text) if self._dims else text)

    def _speak(self, text: str) -> None:
        self._end_thinking(f"{CLOSE}\n")
        if not self._begun and self.look.markdown and can_steer(self._streams[0], self._env):
            self._screen.end(complete=False)
            self._markdown = MarkdownOut(TextOut(self._streams[0]), self._streams[0], self._env)
        self._begun = True
        if self._markdown is not None:
            self._markdown.push(text)
        else:
            self._screen.text(text)

    def _finished(self, report: TurnReport) -> None:
        self._end_thinking(CLOSE)
        if self._markdown is not None:
            self.close()
        else:
            self._screen.end(complete=True)
        thought = [f"{self._n_thought} tokens of thinking, hidden"] if self._n_thought else []
        self.aside([*stats_line(report), *thought])

    def _footer(self, text: str, *, last: bool = False) -> None:
        """Show a state, unless another one has just been shown. The last of a stage always is."""
        now_s = self._clock()
        if self._steers and self._markdown is None and (last or now_s - self._shown_s >= REFRESH_S):
            self._shown_s = now_s
            self._screen.footer(text)


class JsonStage:
    """One JSON object a turn on standard output; everything else as lines on standard error."""

    def __init__(self, look: Look, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self.look = look
        self.colour, self.columns = False, 80
        self._out, self._err = TextOut(stdout), ErrorOut(stderr)
        self._notices: list[str] = []

    def notice(self, sentence: str, /) -> None:
        """Put a notice into the next object; also told at once."""
        self._notices.append(sentence)
        if not self.look.quiet:
            self._err.write(f"note: {visible(sentence)}\n")

    def progress(self, _label: str, _fraction: float | None, /) -> None:
        """Nothing: nobody watches."""

    def say(self, text: str, /) -> None:
        """Show the lines that a command answers with."""
        self._err.write(f"{text}\n")

    def aside(self, parts: Sequence[str], /) -> None:
        """Nothing: the object of the turn has it."""

    def error(self, error: SpecdecError, /, *, of_turn: bool = False) -> None:
        """Show what went wrong; in the place of an answer also as an object."""
        self.say(error_text(error))
        if of_turn:
            self._write({"error": {"what": error.what, "why": error.why, "fix": error.fix}})

    def event(self, event: ChatEvent, /) -> None:
        """Write a turn when it is over."""
        if isinstance(event, Finished):
            self._write(turn_json(event.report))

    def close(self) -> None:
        """Nothing: objects are written whole."""

    def _write(self, turn: Mapping[str, object]) -> None:
        notices, self._notices = self._notices, []
        text = json.dumps(plain({**turn, "notices": notices}), ensure_ascii=False, allow_nan=False)
        self._out.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        self._out.end(complete=True)


def open_stage(look: Look, streams: Sequence[TextIO | None], env: Mapping[str, str], *, as_json: bool) -> Stage:
    """The stage for what was asked and for where the output goes."""
    stdout, stderr = streams
    return JsonStage(look, stdout, stderr) if as_json else TextStage(look, stdout, stderr, env)
