"""Where the events of a run go: a live terminal, plain streams, one JSON document, or the text alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from types import TracebackType
from typing import Protocol, Self, TextIO

from specdec_cli.decoding.contracts import PromptPass
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.document import Document
from specdec_cli.ui.output import ErrorOut, OutputClosed, TextOut, can_steer, colour_allowed, visible
from specdec_cli.ui.render import number
from specdec_cli.ui.screen import Screen
from specdec_cli.ui.summary import Summary, render_summary

REFRESH_S = 0.1  # shortest time between two states of the footer


class Mode(StrEnum):
    """How a run is shown."""

    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Display:
    """What the person asked for."""

    json: bool = False
    quiet: bool = False
    live: bool = True


class Sink(Protocol):
    """Shows a run. A context manager: on leaving, text that was shown ends in a newline and no footer remains.

    Any method that shows text raises OutputClosed when nobody reads standard output any more, and SpecdecError when it cannot
    be written. After finish() a sink is ready for another run.
    """

    def notice(self, sentence: str, /) -> None:
        """Tell the person what was decided, in a sentence."""

    def progress(self, label: str, fraction: float | None, /) -> None:
        """Show how far something is that comes before the text; None where that is not known."""

    def event(self, event: Event, stats: RunStats, /) -> None:
        """Show an event of a run. stats: those of the run, with this event counted."""

    def end_text(self) -> None:
        """One text of several is complete, and has no summary of its own."""

    def report(self, text: str, /) -> None:
        """Show lines about runs that are over: a table, a verdict."""

    def finish(self, summary: Summary, /) -> None:
        """The run is over, whatever ended it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class QuietSink:
    """The text, and nothing else."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def notice(self, _sentence: str, /) -> None:
        pass

    def progress(self, _label: str, _fraction: float | None, /) -> None:
        pass

    def event(self, event: Event, _stats: RunStats, /) -> None:
        if not isinstance(event, PromptPass):
            self._screen.text(event.text)

    def end_text(self) -> None:
        self._screen.end(complete=True)

    def report(self, _text: str, /) -> None:
        pass

    def finish(self, _summary: Summary, /) -> None:
        self.end_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None, /
    ) -> None:
        try:
            self._screen.end(complete=False)
        except OutputClosed:
            if kind is None:  # else the error on its way out says more
                raise


class PlainSink(QuietSink):
    """The text, notices, and the summary."""

    def __init__(self, screen: Screen, *, colour: bool) -> None:
        super().__init__(screen)
        self._colour = colour

    def notice(self, sentence: str, /) -> None:
        self._screen.line(f"note: {visible(sentence)}")

    def report(self, text: str, /) -> None:
        self._screen.line(text)

    def finish(self, summary: Summary, /) -> None:
        super().finish(summary)
        self._screen.line("\n" + render_summary(summary, colour=self._colour, columns=self._screen.columns))


class LiveSink(PlainSink):
    """The text over a footer that tells how the run goes, notices, and the summary."""

    def __init__(self, screen: Screen, *, colour: bool, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(screen, colour=colour)
        self._clock = clock
        self._shown_s = 0.0
        self._stage = ""

    def progress(self, label: str, fraction: float | None, /) -> None:
        if fraction is None:
            self._show(label, label)
        else:
            self._show(label, f"{label} {fraction:.0%}", last=fraction >= 1)

    def event(self, event: Event, stats: RunStats, /) -> None:
        super().event(event, stats)
        if isinstance(event, PromptPass):
            self._show("prompt", f"prompt {event.n_done}/{event.n_total} tokens", last=event.n_done == event.n_total)
        else:
            self._show("rounds", footer_text(stats))

    def _show(self, stage: str, text: str, *, last: bool = False) -> None:
        """Show a state of a stage, unless another one has just been shown. The first and the last always are."""
        now_s = self._clock()
        if last or stage != self._stage or now_s - self._shown_s >= REFRESH_S:
            self._stage, self._shown_s = stage, now_s
            self._screen.footer(text)


class JsonSink:
    """One JSON document on standard output when the run is over; notices also go to standard error as they come."""

    def __init__(self, out: TextOut, err: ErrorOut) -> None:
        self._out = out
        self._err = err
        self._document = Document()

    def notice(self, sentence: str, /) -> None:
        self._document.notices.append(sentence)
        self._err.write(f"note: {visible(sentence)}\n")

    def progress(self, _label: str, _fraction: float | None, /) -> None:
        pass

    def event(self, event: Event, stats: RunStats, /) -> None:
        self._document.add(event, stats)

    def end_text(self) -> None:
        pass

    def report(self, text: str, /) -> None:
        self._err.write(f"{text}\n")

    def finish(self, summary: Summary, /) -> None:
        document, self._document = self._document, Document()
        self._out.write(document.dump(summary))
        self._out.end(complete=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None, /
    ) -> None:
        pass


def footer_text(stats: RunStats) -> str:
    """The state of a run in a line. What is not known yet is left out."""
    parts = [f"{number(stats.generation_tps, 1)} tokens/s"] if stats.generation_tps is not None else []
    if stats.n_drafted:
        parts.append(f"accepted {stats.n_accepted}/{stats.n_drafted}")
        parts.append(f"{number(stats.mean_acceptance_length, 2)} tokens per pass")
    return " | ".join(parts)


def choose(display: Display, stderr: TextIO | None, env: Mapping[str, str]) -> Mode:
    """The mode for what was asked and for where the output goes. --json comes before --quiet."""
    if display.json:
        return Mode.JSON
    if display.quiet:
        return Mode.QUIET
    return Mode.LIVE if display.live and can_steer(stderr, env) else Mode.PLAIN


def open_sink(display: Display, stdout: TextIO | None, stderr: TextIO | None, env: Mapping[str, str]) -> Sink:
    """The sink for what was asked and for where the output goes."""
    colour = colour_allowed(stderr, env)
    mode = choose(display, stderr, env)
    if mode is Mode.JSON:
        return JsonSink(TextOut(stdout), ErrorOut(None if display.quiet else stderr))
    screen = Screen(stdout, stderr, dim=colour)
    if mode is Mode.QUIET:
        return QuietSink(screen)
    if mode is Mode.PLAIN:
        return PlainSink(screen, colour=colour)
    return LiveSink(screen, colour=colour)
