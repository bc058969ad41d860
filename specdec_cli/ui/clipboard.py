"""Puts a text into the clipboard: with a tool of the system, or through the terminal (OSC 52)."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TextIO

from specdec_cli.ui.output import ErrorOut, can_steer

_LIMIT_S = 5.0


def copy(text: str, tty: TextIO | None, env: Mapping[str, str]) -> str | None:
    """Copy a text; returns by what, as the rest of a sentence, or None where there was no way.

    Over SSH the tools would fill the clipboard of the far machine, so there the terminal is asked.
    """
    if "SSH_CONNECTION" not in env:
        for command, encoding in _tools(env):
            if shutil.which(command[0]) and _ran(command, text.encode(encoding)):
                return f"with {command[0]}"
    if not can_steer(tty, env):
        return None
    encoded = base64.b64encode(text.encode()).decode("ascii")
    ErrorOut(tty).write(f"\x1b]52;c;{encoded}\x07")
    return "through the terminal (OSC 52; some terminals ignore it)"


def _tools(env: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Commands that may be there, with the encoding they read."""
    if sys.platform == "win32":
        return [(["clip"], "utf-16")]
    if sys.platform == "darwin":
        return [(["pbcopy"], "utf-8")]
    wayland = [(["wl-copy"], "utf-8")] if "WAYLAND_DISPLAY" in env else []
    x11 = [["xclip", "-selection", "clipboard"], ["xsel", "--input", "--clipboard"]] if "DISPLAY" in env else []
    return [*wayland, *((command, "utf-8") for command in x11)]


def _ran(command: list[str], data: bytes) -> bool:
    try:
        done = subprocess.run(
            command, input=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
