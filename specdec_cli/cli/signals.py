"""Ctrl-C while native code runs: the first stops the pass under way, the second ends the command."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from specdec_cli.llama.interrupt import Interrupt


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Let Ctrl-C request the interrupt, at once even inside a long native call; a second one raises KeyboardInterrupt.

    Python runs its own handler only when the native call has returned. Its C-level handler writes the signal's number to a
    socket right away; a thread that reads there sets the flag that llama.cpp polls.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        while numbers := reader.recv(16):
            if signal.SIGINT in numbers:
                interrupt.request()

    n_seen = 0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal n_seen
        n_seen += 1
        interrupt.request()
        if n_seen > 1 and not interrupt.calls_back:
            raise KeyboardInterrupt

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.signal(signal.SIGINT, handle)
    fd_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        signal.signal(signal.SIGINT, before)
        writer.close()
        watcher.join()
        reader.close()
