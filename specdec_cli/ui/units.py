"""Shares, paths, and text of unknown origin as one harmless line."""

from __future__ import annotations

import os

from specdec_cli.units import visible


def percent(part: int, whole: int) -> str:
    """A share; one that is there is never nothing."""
    share = part / whole if whole else 0.0
    return "<1 %" if 0 < share < 0.005 else f"{share:.0%}".replace("%", " %")


def one_line(text: str, limit: int) -> str:
    """The text in one line of at most so many characters, with what would steer a terminal or turn its text spelled out."""
    n_more = len(text) - limit
    words = " ".join(text[:limit].split())
    shown = visible(words)
    return f"{shown}... ({n_more:,} characters more)" if n_more > 0 else shown


def from_home(path: str) -> str:
    """A path with ~ for the home folder, which shells and specdec understand, and which names nobody."""
    home = os.path.expanduser("~")  # noqa: PTH111 (Path.home() raises where there is none)
    return f"~{path[len(home) :]}" if len(home) > 1 and (path == home or path.startswith((home + "/", home + os.sep))) else path


def lines(text: str) -> str:
    """The text with its lines and tabs, and everything else that would steer a terminal spelled out."""
    return visible(text.replace("\r\n", "\n"), "\n\t")
