"""The names that programs import, and how loading ends at Ctrl-C; no model is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import specdec_cli
from specdec_cli import Session, library
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.library import session as module
from specdec_cli.llama.interrupt import Interrupt

HEAVY = ("numpy", "llama_cpp", "huggingface_hub", "typer", "rich", "specdec_cli.library")


class FakeEngine:
    """An engine during whose opening Ctrl-C comes. heeds: it stops, else it is open by then."""

    heeds = True
    closed = 0

    def __init__(self, options: object, listener: object, interrupt: Interrupt) -> None:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        if self.heeds:
            raise PassAborted

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *_error: object) -> None:
        FakeEngine.closed += 1


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "session_options", lambda settings, listener: None)
    monkeypatch.setattr(module, "Engine", FakeEngine)
    monkeypatch.setattr(FakeEngine, "closed", 0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, specdec_cli; print([name for name in {HEAVY!r} if name in sys.modules], 'Session' in dir(specdec_cli))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_every_public_name_is_there_and_no_other() -> None:
    for name in specdec_cli.__all__:
        assert getattr(specdec_cli, name) is not None
    assert set(specdec_cli.__all__) - {"__version__"} == set(library.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        _ = specdec_cli.Sesion  # type: ignore[attr-defined]


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize("heeds", [True, False])
def test_ctrl_c_while_loading_raises_and_leaves_nothing_open(heeds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeEngine, "heeds", heeds)
    with pytest.raises(KeyboardInterrupt):
        Session.load(Path("target.gguf"))
    assert FakeEngine.closed == (0 if heeds else 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
