"""Made models that several tests of the command share; they are large, and go again after the last test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.models import patched, swapped_tokens, write_recurrent
from tests.gguf_files import copy_with_padding


@pytest.fixture(scope="session")
def swapped(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2 with two neighbouring tokens in each other's place."""
    path = patched(smollm2, tmp_path_factory.mktemp("swapped") / "swapped.gguf", swapped_tokens(smollm2)[0])
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def padded(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2 with 128 padding tokens more."""
    path = copy_with_padding(smollm2, tmp_path_factory.mktemp("padded") / "padded.gguf", 128)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Mamba model."""
    return write_recurrent(tmp_path_factory.mktemp("recurrent") / "mamba.gguf")
