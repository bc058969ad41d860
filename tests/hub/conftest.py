"""A stand-in hub, an empty cache, and no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from specdec_cli.hub import transfer
from tests.hub.standin import StandIn

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_SETTINGS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "SSL_CERT_FILE", *_PROXIES)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """huggingface_hub reads most of its environment once, when it is imported: its constants are set instead."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "home" / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 2)
    monkeypatch.setattr(transfer, "FIRST_WAIT_S", 0.0)
    return folder


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    huggingface_hub.close_session()  # it may hold proxies of an earlier environment
    standin = StandIn()
    monkeypatch.setenv("HF_ENDPOINT", standin.endpoint)
    yield standin
    huggingface_hub.close_session()
    standin.close()
