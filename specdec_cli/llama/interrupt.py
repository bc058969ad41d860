"""The flag that stops a pass from outside, readable by native code without the interpreter."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupt:
    """Set from any thread; llama.cpp polls it between the nodes of a pass's graph.

    The flag is a C string: empty, or one byte of value 1. So strlen of the C library, called on it as the abort callback,
    returns 0 or 1. A Python callback would cost a microsecond for each of the thousand nodes of every pass.
    """

    def __init__(self) -> None:
        self._flag = ctypes.create_string_buffer(2)
        library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
        self.poll = ctypes.cast(library.strlen, ctypes.c_void_p).value or 0
        self.address = ctypes.addressof(self._flag)
        self.calls_back = False  # whether native code may be inside a Python callback, where nothing may be raised

    @property
    def requested(self) -> bool:
        return self._flag.raw[0] != 0

    def request(self) -> None:
        self._flag[0] = b"\x01"

    def clear(self) -> None:
        self._flag[0] = b"\x00"

    @contextmanager
    def calling_back(self) -> Iterator[None]:
        """Around a native call that logs or reports progress: what a callback raises would be printed and forgotten."""
        self.calls_back = True
        try:
            yield
        finally:
            self.calls_back = False
