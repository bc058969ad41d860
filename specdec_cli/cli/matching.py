"""The tokens of a vocabulary that a regular expression matches, in bounded time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from specdec_cli.errors import SpecdecError, UsageError
from specdec_cli.gguf.vocabulary import Vocabulary
from specdec_cli.settings.kinds import quoted

LIMIT_S = 20.0  # a plain pattern takes a second on the largest vocabularies
_LONGEST = 1000  # characters of a token that are looked at
_WORKER = Path(__file__).with_name("pattern_worker.py")


def matching(vocabulary: Vocabulary, pattern: str, limit_s: float = LIMIT_S) -> list[int]:
    """Ids of the tokens whose text the pattern matches somewhere, as it is written or as it is shown.

    Raises UsageError for what is no pattern, and for one that takes too long.
    """
    texts = [_forms(vocabulary, token) for token in range(vocabulary.n_vocab)]
    asked = json.dumps({"pattern": pattern, "texts": texts}).encode() + b"\n"
    try:
        # -P: else the modules beside the worker, one of which is called inspect, would stand for Python's own.
        done = subprocess.run(
            [sys.executable, "-P", str(_WORKER)],
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=True,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--tokens {quoted(pattern)} takes too long.",
            f"It was not through the vocabulary after {limit_s:.0f} seconds: it tries the same text in countless ways.",
            "Take out repetitions of repetitions, such as (a+)+.",
        ) from None
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise SpecdecError(
            "The pattern cannot be matched.", f"No process for it: {error}", "Check the Python installation."
        ) from None
    if "error" in answer:
        raise UsageError(
            f"--tokens {quoted(pattern)} is no regular expression.",
            f"{answer['error']}.",
            "A backslash takes a sign by its word: --tokens '\\('. Alone, a word finds the tokens that hold it.",
        )
    return [int(token) for token in answer["found"]]


def _forms(vocabulary: Vocabulary, token: int) -> tuple[str, ...]:
    """A token as what it writes and as a person sees it, each once."""
    text = vocabulary.piece(token)[: 4 * _LONGEST].decode("utf-8", errors="backslashreplace")[:_LONGEST]
    shown = repr(text)[1:-1]
    return (text,) if shown == text else (text, shown)
