"""What is told about the hub without asking it, and without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from specdec_cli.hub.state import hub_state, is_offline


def test_it_tells_where_and_whether_and_never_the_token(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://user:password@hub.example/x?key=secret")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijk")
    state = hub_state()
    assert (state.cache, state.is_offline, state.has_token) == (cache, False, True)
    assert state.endpoint == "https://***@hub.example/x?***"
    assert "abcdefghijk" not in repr(state)


def test_without_variables_it_is_the_hub_itself(cache: Path) -> None:
    state = hub_state()
    assert state.endpoint == constants.ENDPOINT
    assert not state.has_token


def test_offline_as_the_library_sees_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert is_offline()
    assert hub_state().is_offline
