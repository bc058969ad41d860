"""specdec: speculative decoding for GGUF models, lossless and never slower. For programs: from specdec_cli import Session."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_cli.library import (
        BackendError,
        Chat,
        FinishReason,
        Generation,
        GenerationOptions,
        GrammarError,
        Kind,
        ModelFileError,
        PairError,
        PromptError,
        Round,
        RunStats,
        Session,
        SessionStats,
        SpecdecError,
        Turn,
        UsageError,
    )

__version__ = "0.1.0"

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
    "__version__",
]


if not TYPE_CHECKING:  # a type checker would take any other name for one of these

    def __getattr__(name: str) -> object:
        # Imported when it is first asked for: it brings numpy and llama.cpp, which the command's --help need not wait for.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("specdec_cli.library"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
