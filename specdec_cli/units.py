"""Sizes and counts as people say them, and text of unknown origin made harmless."""

from __future__ import annotations

_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def size(n_bytes: int) -> str:
    """Bytes in units of a thousand, as the hub and file managers count: 398 MB."""
    return _scaled(n_bytes, _BYTES) or f"{n_bytes} B"


def count(n: int) -> str:
    """A number of parameters: 494 M."""
    return _scaled(n, _COUNTS) or str(n)


def _scaled(n: int, units: tuple[tuple[float, str], ...]) -> str:
    """With three digits; empty below the smallest unit."""
    for unit, name in units:
        if n >= 0.9995 * unit:
            value = n / unit
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {name}"
    return ""


def visible(text: str, but: str = "") -> str:
    """The text with everything that would steer a terminal or turn its text spelled out, but for these characters."""
    return "".join(char if char.isprintable() or char in but else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
