"""One generation as a program sees it: an iterator of text, which can be left at any moment."""

from __future__ import annotations

import signal
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import Self

from specdec_cli.decoding.contracts import Ended, FinishReason, PromptPass, Round
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import UsageError
from specdec_cli.library.totals import SessionStats
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.signals import Watcher, can_handle, handling


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a run, and what it adds to the text."""

    event: PromptPass | Round | Ended
    text: str = ""
    thinking: str = ""


class Desk:
    """What the generations of a session share: its caches, which one at a time may use, the totals, and Ctrl-C."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.stats = SessionStats()
        self.interrupt = interrupt
        self._current: weakref.ref[Generation] | None = None
        self._watcher: Watcher | None = None
        self._closed = False

    @property
    def current(self) -> Generation | None:
        """The generation under way."""
        return self._current() if self._current is not None else None

    def check_free(self) -> None:
        """Raises UsageError while a generation is under way, and once the session is closed."""
        if self._closed:
            raise UsageError("The session is closed.", "Its models are freed.", "Load it again, or work inside its with block.")
        if self.current is not None:
            raise UsageError(
                "Another generation of this session is under way.",
                "A session has one cache, and it belongs to a generation until that is over.",
                "Iterate over the other one to its end, or close() it first.",
            )

    def enter(self, generation: Generation) -> None:
        """Give it the caches. Raises UsageError."""
        self.check_free()
        self.interrupt.clear()
        if can_handle():
            self._watcher = Watcher(self.interrupt)
        self._current = weakref.ref(generation)

    def leave(self, stats: RunStats) -> None:
        """Take the caches back, and count what was done."""
        self._current = None
        self.stats.add(stats)

    def close(self) -> None:
        """End the generation under way, and let no other begin."""
        if (generation := self.current) is not None:
            generation.close()
        self._closed = True

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Keep Ctrl-C from breaking into a step of a generation."""
        try:
            with undisturbed(self.interrupt, self._watcher):
                yield
        finally:
            if self._current is None and self._watcher is not None:
                self._watcher.close()
                self._watcher = None


@contextmanager
def undisturbed(interrupt: Interrupt, watcher: Watcher | None) -> Iterator[None]:
    """Keep Ctrl-C from breaking into what is done here; whoever handles it is called afterwards.

    Where that is Python itself, which then raises KeyboardInterrupt, a pass under way is stopped at once.
    """
    handler = signal.getsignal(signal.SIGINT)
    if watcher is None or not callable(handler) or not can_handle():
        yield
        return
    stops, seen = handler is signal.default_int_handler, False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen = True
        if stops:
            interrupt.request()

    try:
        with watcher.handling(handle) if stops else handling(handle):
            yield
    finally:
        if seen:
            handler(signal.SIGINT, None)


class Generation:
    """Text as it is generated: iterate over it for the pieces, over rounds() for the figures of each round.

    Both take from the same run, which begins with the first of them. text, tokens and stats hold what there is so far. A run
    that is left before its end (break, an exception, Ctrl-C, close()) ends there: what was said stays, finish says
    INTERRUPTED, and the session's caches fit the next run.
    """

    def __init__(self, steps: Iterator[Step], desk: Desk, seed: int) -> None:
        """Made by Session.generate() and Chat.say()."""
        self.seed = seed  # that it is drawn with; the same seed and prompt draw the same text again
        self.stats = RunStats()
        self._steps = steps
        self._desk = desk
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._started = False
        self._over = False

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._texts)

    @property
    def thinking(self) -> str:
        """In a chat: what a reasoning model wrote before its answer."""
        return "".join(self._thoughts)

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens so far, thinking and end token included."""
        return tuple(self._tokens)

    @property
    def finish(self) -> FinishReason | None:
        """Why it ended; None while it has not."""
        return self.stats.finish

    def read(self) -> str:
        """Run to the end, and return the whole text."""
        for _ in self:
            pass
        return self.text

    def rounds(self) -> Iterator[Round]:
        """The rounds from here on, each as it is done."""
        while (step := self._advance()) is not None:
            if isinstance(step.event, Round):
                yield step.event

    def close(self) -> None:
        """End it here, if it has not ended."""
        if not self._started or self._over:
            self._over = True
            return
        with self._desk.undisturbed():
            self._stop()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        while (step := self._advance()) is not None:
            if step.text:
                return step.text
        raise StopIteration

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()

    def _advance(self) -> Step | None:
        if self._over:
            return None
        if not self._started:
            self._desk.enter(self)
            self._started = True
            self.stats.started_s = perf_counter()
        try:
            with self._desk.undisturbed():
                step = next(self._steps, None)
                if step is None:
                    self._end()
                    return None
                self._add(step)
                if self._desk.interrupt.requested:
                    self._stop()
                return step
        except BaseException:
            self.close()
            raise

    def _stop(self) -> None:
        """Have the run end before its next pass, and take what it still says."""
        self._desk.interrupt.request()
        try:
            for step in self._steps:
                self._add(step)
        finally:
            self._end()

    def _add(self, step: Step) -> None:
        self.stats.add(step.event)
        if isinstance(step.event, Round):
            self._tokens += step.event.emitted
        self._texts.append(step.text)
        self._thoughts.append(step.thinking)

    def _end(self) -> None:
        self._over = True
        self._desk.leave(self.stats)
