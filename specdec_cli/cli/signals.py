"""Ctrl-C while a command works: the first stops the pass under way, the second ends the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType

from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.signals import Watcher, can_handle


@contextmanager
def interruptible(interrupt: Interrupt, *, ends: bool = True) -> Iterator[None]:
    """Let Ctrl-C request the interrupt, at once even inside a long native call; a second one raises KeyboardInterrupt.

    ends: without it the second one does no more than the first.
    """
    if not can_handle():
        yield
        return
    n_seen = 0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal n_seen
        n_seen += 1
        interrupt.request()
        if ends and n_seen > 1 and not interrupt.calls_back:
            raise KeyboardInterrupt

    with closing(Watcher(interrupt)) as watcher, watcher.handling(handle):
        yield
