"""What programs import: a loaded model as an object, text as an iterator, a chat."""

from __future__ import annotations

from specdec_cli.chat.talk import Turn
from specdec_cli.decoding.contracts import FinishReason, Kind, Round
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import (
    BackendError,
    GrammarError,
    ModelFileError,
    PairError,
    PromptError,
    SpecdecError,
    UsageError,
)
from specdec_cli.library.chat import Chat
from specdec_cli.library.generation import Generation
from specdec_cli.library.given import GenerationOptions
from specdec_cli.library.session import Session
from specdec_cli.library.totals import SessionStats

__all__ = [
    "BackendError",
    "Chat",
    "FinishReason",
    "Generation",
    "GenerationOptions",
    "GrammarError",
    "Kind",
    "ModelFileError",
    "PairError",
    "PromptError",
    "Round",
    "RunStats",
    "Session",
    "SessionStats",
    "SpecdecError",
    "Turn",
    "UsageError",
]
