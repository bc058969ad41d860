"""Hears Ctrl-C while native code runs, which Python itself does only once the native call has returned."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from specdec_cli.llama.interrupt import Interrupt

Handler = Callable[[int, FrameType | None], object]


def can_handle() -> bool:
    """Whether this thread may handle signals: only the main one may."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handling(handle: Handler) -> Iterator[None]:
    """Let handle be what Python calls for Ctrl-C. In the main thread only."""
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Watcher:
    """Requests the interrupt the moment Ctrl-C comes, while handling() is entered. close() ends it.

    Python's C-level handler writes the signal's number to a socket right away; a thread that reads there sets the flag that
    llama.cpp polls.
    """

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @contextmanager
    def handling(self, handle: Handler) -> Iterator[None]:
        """As handling(), and the interrupt is requested at once."""
        with handling(handle):
            fd_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            try:
                yield
            finally:
                signal.set_wakeup_fd(fd_before)

    def close(self) -> None:
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _watch(self) -> None:
        while numbers := self._reader.recv(16):
            if signal.SIGINT in numbers:
                self._interrupt.request()
