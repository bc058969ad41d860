"""Makes native calls that might not end on a thread of their own, so that the caller can stop waiting."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True)
class _Mailbox:
    """What the thread and its owner share; the thread holds nothing else, so that the owner can be collected."""

    job: Callable[[], None] | None = None
    error: BaseException | None = None
    posted: threading.Lock = field(default_factory=_held_lock)
    done: threading.Lock = field(default_factory=_held_lock)


def _serve(box: _Mailbox) -> None:
    while True:
        box.posted.acquire()
        job, box.job = box.job, None
        if job is None:
            return
        try:
            job()
        except BaseException as error:  # it belongs to the caller, on the other thread
            box.error = error
        del job  # it may hold the last reference to native memory
        box.done.release()


class BoundedCalls:
    """Calls, one at a time, each of which may take limit_s seconds. After one that takes longer there are no more."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._box = _Mailbox()
        self._lost = False
        threading.Thread(target=_serve, args=(self._box,), name="specdec-grammar", daemon=True).start()
        weakref.finalize(self, self._box.posted.release).atexit = False

    def call(self, job: Callable[[], None]) -> None:
        """Run the job; raises TimeoutError when it has not ended in time. Whatever the job uses, it must hold."""
        if self._lost:
            raise TimeoutError
        box = self._box
        box.job, box.error = job, None
        del job
        self._lost = True
        box.posted.release()
        try:
            self._lost = not box.done.acquire(timeout=self.limit_s)
        except BaseException:  # Ctrl-C: the job still uses what the next call will use
            self._lost = not box.done.acquire(timeout=self.limit_s)
            raise
        if self._lost:
            raise TimeoutError
        if box.error is not None:
            raise box.error
