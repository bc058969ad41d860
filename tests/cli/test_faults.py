"""Files that cannot be run: each fault has a sentence of its own, an exit code, and no traceback."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import Done, run
from tests.cli.models import chat_template, patched, swapped_tokens, text_value, words
from tests.gguf_files import TINY, write_gguf, write_vocab_gguf

pytestmark = pytest.mark.model

Make = Callable[[Path, Path], object]  # (where, SmolLM2) makes a file


def refusal(*arguments: str | Path) -> str:
    """What the command says of something it does not start with."""
    done = run(*arguments, "Hi", "-n", "1", "-q")
    assert done.code == 2, done
    assert done.out == b""
    assert done.err.startswith("error: ")
    assert 1 < len(done.err.splitlines()) <= 3
    return done.err


def truncated(n_bytes: int) -> Make:
    """n_bytes: of the file; a negative number is how many it lacks."""

    def make(path: Path, smollm2: Path) -> None:
        patched(smollm2, path, weights=False)
        os.truncate(path, n_bytes if n_bytes > 0 else smollm2.stat().st_size + n_bytes)

    return make


def content(data: bytes) -> Make:
    return lambda path, _smollm2: path.write_bytes(data)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 98362432\n"
ADAPTER = {"general.type": "adapter", "adapter.type": "lora"}
FAULTS: dict[str, tuple[Make, str]] = {
    "empty": (content(b""), "is empty"),
    "cut at 10 bytes": (truncated(10), "is truncated.\n  It needs at least 24 bytes and has 10."),
    "cut at 24 bytes": (truncated(24), "is truncated"),
    "cut at 500 kB": (truncated(500_000), "bytes and has 500,000."),
    "cut at 40 MB": (truncated(40_000_000), "bytes and has 40,000,000."),
    "cut by a byte": (truncated(-1), "is truncated"),
    "web page": (content(b"<!DOCTYPE html><html><head><title>404</title></head></html>"), "is a web page"),
    "LFS pointer": (content(LFS), "is a Git LFS pointer"),
    "GGUF version 1": (content(b"GGUF" + struct.pack("<IQQ", 1, 0, 0)), "GGUF version 1"),
    "projector": (lambda path, _: write_gguf(path, {}, TINY, "clip"), "is a projector"),
    "embedding model": (lambda path, _: write_gguf(path, {"bert.pooling_type": 1}, TINY, "bert"), "is an embedding model"),
    "LoRA adapter": (lambda path, _: write_gguf(path, ADAPTER, TINY), "is a LoRA adapter"),
    "vocabulary only": (lambda path, _: write_vocab_gguf(path, ["a", "b"]), "holds a vocabulary only"),
    "unknown architecture": (
        lambda path, smollm2: patched(smollm2, path, text_value("general.architecture", "llama", "lammx"), weights=False),
        "has the architecture 'lammx'.",
    ),
    "unknown pre-tokenizer": (
        lambda path, smollm2: patched(smollm2, path, text_value("tokenizer.ggml.pre", "smollm", "smollx"), weights=False),
        "has the pre-tokenizer 'smollx'.",
    ),
    "a folder": (lambda path, _: path.mkdir(), "is a folder"),
    "missing": (lambda _path, _smollm2: None, "does not exist"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_target_that_cannot_be_run_is_refused_in_its_own_words(fault: str, smollm2: Path, tmp_path: Path) -> None:
    make, sentence = FAULTS[fault]
    path = tmp_path / "broken.gguf"
    make(path, smollm2)
    said = refusal(path)
    assert sentence in said
    assert said.startswith("error: The target")
    assert "broken.gguf" in said


@pytest.mark.parametrize("fault", ["cut at 40 MB", "LoRA adapter", "unknown architecture"])
def test_a_draft_that_cannot_be_run_is_refused_as_the_draft(fault: str, smollm2: Path, tmp_path: Path) -> None:
    make, sentence = FAULTS[fault]
    path = tmp_path / "broken.gguf"
    make(path, smollm2)
    said = refusal("demo", "--draft", path)
    assert sentence in said
    assert said.startswith("error: The draft")


@pytest.mark.parametrize("fault", ["cut at 40 MB", "unknown pre-tokenizer", "missing"])
def test_a_draft_that_may_be_missing_is_done_without_and_that_is_said(fault: str, smollm2: Path, tmp_path: Path) -> None:
    make, sentence = FAULTS[fault]
    path = tmp_path / "broken.gguf"
    make(path, smollm2)
    done = run("demo", "Hi", "-n", "3", "--draft", path, "--draft-optional", "--json")
    assert done.code == 0
    document = done.document
    assert document["drafter"] == "none"
    assert len(document["tokens"]) == 3
    assert "draft" not in document["models"]
    assert any(
        notice.startswith("Decoding plainly: The draft") and sentence.split("\n")[0] in notice for notice in document["notices"]
    )


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom permissions hold back")
def test_a_file_that_may_not_be_read_is_said_to_be_so(smollm2: Path, tmp_path: Path) -> None:
    path = patched(smollm2, tmp_path / "secret.gguf", weights=False)
    path.chmod(0)
    assert "may not be read" in refusal(path)


def test_a_pair_with_swapped_tokens_is_refused_by_the_first_of_them(smollm2: Path, tmp_path: Path) -> None:
    change, first = swapped_tokens(smollm2)
    path = patched(smollm2, tmp_path / "swapped.gguf", change, weights=False)
    said = refusal("demo", "--draft", path)
    one, other = words(smollm2).shown(first), words(smollm2).shown(first + 1)
    assert f"the first is id {first:,}: {one} in the target, {other} in the draft" in said
    assert "--force" in said


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{% for message in messages %}{{ message['content'] ", "has a syntax error"),
        ("{{ ''.__class__.__mro__ }}", "does what a template must not do"),
        ("{{ 'x' * 10**9 }}", "does not come to an end"),
        ("{{ raise_exception('only with tools') }}", "only with tools"),
    ],
    ids=["broken", "reaches out", "vast", "refuses"],
)
def test_a_chat_template_that_does_not_render_is_said(template: str, sentence: str, smollm2: Path, tmp_path: Path) -> None:
    path = patched(smollm2, tmp_path / "model.gguf", chat_template(smollm2, template), weights=False)
    said = refusal(path)
    assert "chat template" in said
    assert sentence in said
    assert "--raw" in said


def test_a_broken_chat_template_does_no_harm_where_it_is_not_asked_for(smollm2: Path, tmp_path: Path) -> None:
    path = patched(smollm2, tmp_path / "model.gguf", chat_template(smollm2, "{% broken"), weights=False)
    assert run(path, "Hi", "-n", "1", "-q", "--raw").code == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["Hi", "-c", "16"], ["The prompt has 31 tokens", "The context holds 16", "-c "]),
        (["Hi", "--grammar", 'root ::= "a" nowhere'], ["grammar", "nowhere"]),
        (["Hi", "--json-schema", "{"], ["JSON schema", "not JSON"]),
        (["Hi", "--grammar-file", "no-such-file"], ["grammar file no-such-file", "No such file"]),
        (["Hi", "--ngram-corpus", "no-such-file"], ["corpus file no-such-file", "The current folder", "--ngram-corpus FILE"]),
        (["Hi", "--logit-bias", "49152-1"], ["49152", "0 to 49151"]),
        (["Hi", "-ctv", "q4_0", "-fa", "off"], ["flash", "-ctv f16"]),
        (["Hi", "-dev", "CUDA7"], ["'CUDA7'", "-dev none"]),
        (["Hi", "--lora", "no-such-file"], ["LoRA adapter no-such-file"]),
        (["Hi", "--raw", "-sys", "Be brief."], ["system prompt", "--raw"]),
        (["Hi", "--override-kv", "llama.block_count=int:0"], ["0 layers"]),
        (["Hi", "--override-kv", "llama.expert_count=int:4"], ["experts"]),
    ],
    ids=lambda value: value[1] if isinstance(value, list) and value[0] == "Hi" else "",
)
def test_what_the_model_cannot_do_is_a_sentence(arguments: list[str], parts: list[str]) -> None:
    done: Done = run("demo", *arguments, "-q", "-n", "1")
    assert done.code == 2
    assert done.out == b""
    assert done.err.startswith("error: ")
    for part in parts:
        assert part in done.err
