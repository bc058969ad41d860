"""What many tests share: the embedded model, and a cache folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specdec_cli.hub.resolving import resolve


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' records and made models out of the person's own cache, and the person's models out of the tests."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECDEC_CACHE", str(folder))
        patch.setenv("HF_HUB_CACHE", str(folder / "hub"))
        yield folder


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1."""
    return resolve("demo", "model")


@pytest.fixture(scope="session")
def smollm2_q4_0(smollm2: Path, own_cache: Path) -> Path:
    """The same model in Q4_0."""
    from specdec_cli.llama.quantise import FileType, quantise

    target = own_cache / "models" / "smollm2-q4_0.gguf"
    if not target.exists():
        quantise(smollm2, target, FileType.Q4_0)
    return target
