"""What the environment says about the hub: which one, whether it may be asked, whether there is a token. Asks no network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.hub.secrecy import scrub


@dataclass(frozen=True, slots=True)
class HubState:
    """Nothing in here is secret."""

    cache: Path
    endpoint: str  # without user, password and query
    is_offline: bool
    has_token: bool


def hub_state() -> HubState:
    """What huggingface_hub has made of its variables."""
    from huggingface_hub import constants, get_token  # imported here: --help may not load it

    endpoint = os.environ.get("HF_ENDPOINT", "").strip() or constants.ENDPOINT
    try:
        has_token = get_token() is not None
    except OSError:  # a home that is no folder
        has_token = False
    return HubState(Path(constants.HF_HUB_CACHE), scrub(endpoint), is_offline(), has_token)


def is_offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    from huggingface_hub import constants

    return bool(constants.is_offline_mode())
