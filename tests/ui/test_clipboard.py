"""The clipboard is filled by a tool that is there, else through the terminal."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest

from specdec_cli.ui.clipboard import copy
from tests.ui.terminal import stream

TEXT = "eins, zw\u00f6lf\n\U0001f600"


def through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], *, tty: bool = True
) -> tuple[str | None, str]:
    taken = bytearray()
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + "/usr/bin:/bin")
    how = copy(TEXT, stream(taken.extend, tty=tty), {"TERM": "xterm", **env})
    return how, taken.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="stands in for a tool of Linux")
def test_a_tool_gets_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "wl-copy"
    tool.write_text(f"#!/bin/sh\ncat > {tmp_path}/taken\n", encoding="utf-8")
    tool.chmod(0o755)
    env = {"WAYLAND_DISPLAY": "wayland-0"}
    assert through(tmp_path, monkeypatch, env) == ("with wl-copy", "")
    assert (tmp_path / "taken").read_text(encoding="utf-8") == TEXT
    how, _ = through(tmp_path, monkeypatch, {**env, "SSH_CONNECTION": "x"})  # that clipboard is on another machine
    assert how is not None
    assert "OSC 52" in how
    tool.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert "OSC 52" in (through(tmp_path, monkeypatch, env)[0] or "")


def test_the_terminal_gets_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, taken = through(tmp_path, monkeypatch, {"SSH_CONNECTION": "x"})
    assert taken.startswith("\x1b]52;c;")
    assert taken.endswith("\x07")
    assert base64.b64decode(taken[len("\x1b]52;c;") : -1]).decode() == TEXT


def test_without_tool_and_terminal_there_is_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert through(tmp_path, monkeypatch, {"SSH_CONNECTION": "x"}, tty=False) == (None, "")
    assert through(tmp_path, monkeypatch, {"SSH_CONNECTION": "x", "TERM": "dumb"}) == (None, "")
