"""The lines for other servers name the same models, the same kind of drafter and the same length."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from specdec_cli.bench.elsewhere import Command, Served, commands, hub_name
from specdec_cli.gguf.header import Header


def _header(name: str, **metadata: str) -> Header:
    keys = {key.replace("__", "."): value for key, value in metadata.items()}
    return Header((Path(name),), 3, {"general.architecture": "llama", **keys}, (), 0, 0)


TARGET = _header("target.gguf", general__source__repo_url="https://huggingface.co/org/target")
DRAFT = _header("my draft.gguf")


def _both(draft: Header | None, *, ngram: bool, averaged: bool = False) -> tuple[Command, Command]:
    served = Served(TARGET, draft, ngram, 5, averaged, 4096, 8, ("--gpu-layers", "20"))
    llama_server, vllm = commands(served)
    return llama_server, vllm


def _config(command: Command) -> dict[str, object]:
    words = shlex.split(command.line)
    found = json.loads(words[words.index("--speculative-config") + 1])
    assert isinstance(found, dict)
    return found


def test_a_model_drafts() -> None:
    llama_server, vllm = _both(DRAFT, ngram=False)
    words = shlex.split(llama_server.line)
    assert words[:9] == ["llama-server", "-m", "target.gguf", "-c", "4096", "-t", "8", "--gpu-layers", "20"]
    assert words[9:] == ["-md", "my draft.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "5"]
    assert vllm.line.startswith("vllm serve org/target --max-model-len 4096 ")
    assert _config(vllm) == {"method": "draft_model", "model": "DRAFT_ON_HUGGING_FACE", "num_speculative_tokens": 5}
    assert any("original weights" in note for note in vllm.notes)
    assert any("DRAFT_ON_HUGGING_FACE" in note for note in vllm.notes)


def test_repetition_drafts() -> None:
    llama_server, vllm = _both(None, ngram=True)
    assert llama_server.line.endswith("--spec-type ngram-simple --spec-ngram-simple-size-m 5")
    assert _config(vllm)["method"] == "ngram"


def test_both_draft() -> None:
    llama_server, vllm = _both(DRAFT, ngram=True)
    assert "--spec-type ngram-simple,draft-simple" in llama_server.line
    assert any("one kind of drafter" in note for note in vllm.notes)


def test_nothing_drafts() -> None:
    llama_server, vllm = _both(None, ngram=False, averaged=True)
    assert "--spec" not in llama_server.line
    assert "--speculative" not in vllm.line
    assert not any("average" in note for note in (*llama_server.notes, *vllm.notes))


def test_an_average_is_called_one() -> None:
    assert all(
        any("5 tokens is the average" in note for note in each.notes) for each in _both(DRAFT, ngram=False, averaged=True)
    )


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({}, (None, False)),
        ({"general__repo_url": "https://huggingface.co/a/b"}, ("a/b", False)),
        ({"general__repo_url": "https://huggingface.co/a/b/"}, ("a/b", False)),
        ({"general__repo_url": "https://example.com/a/b"}, (None, False)),
        ({"general__source__huggingface__repository": "a/b"}, ("a/b", False)),
        ({"general__base_model__0__repo_url": "https://huggingface.co/a/b-1.5"}, ("a/b-1.5", True)),
        ({"general__repo_url": "https://huggingface.co/a/b; rm -rf"}, (None, False)),
    ],
)
def test_the_repository_is_the_one_that_the_file_names(metadata: dict[str, str], name: tuple[str | None, bool]) -> None:
    assert hub_name(_header("x.gguf", **metadata)) == name
