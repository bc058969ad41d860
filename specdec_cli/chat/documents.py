"""Reads a file that goes with a question."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.chat.talk import Document
from specdec_cli.errors import PromptError
from specdec_cli.textfile import decoded, read_bytes

_FIX = "Give a text file."


def read_document(file: Path) -> Document:
    """A text file as a document under its name. Raises PromptError."""
    text = decoded(read_bytes(file, "file", _FIX), f"The file {file}")
    if text is None:
        raise PromptError(f"The file {file} is empty.", "", _FIX)
    return Document(file.name, text)
