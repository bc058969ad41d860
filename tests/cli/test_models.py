"""specdec models: what is in the hub cache and in folders, without one bad file spoiling the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import Done, specdec
from tests.gguf_files import TINY, smollm2, write_gguf, write_vocab_gguf

WORDS = [f"word{i}" for i in range(40)]
PAGE = Path(__file__).parents[2] / "docs" / "json" / "models.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A hub cache with two models of one family, a projector and a cut file."""
    one = tmp_path / "hub" / "models--owner--one" / "snapshots" / ("a" * 40)
    one.mkdir(parents=True)
    (one.parents[1] / "refs").mkdir()
    (one.parents[1] / "refs" / "main").write_text("a" * 40, encoding="utf-8")
    write_vocab_gguf(one / "m-F16.gguf", WORDS, extra={"general.file_type": 1}, tensors=TINY)
    write_vocab_gguf(one / "m-Q8_0.gguf", [*WORDS, "<pad>"], [1] * 40 + [5], extra={"general.file_type": 7}, tensors=TINY)
    write_gguf(one / "mmproj-F16.gguf", {"general.file_type": 1}, TINY, "clip")
    (one / "cut-Q4_0.gguf").write_bytes(smollm2().read_bytes()[:500_000])
    (one.parents[1] / "blobs").mkdir()
    (one.parents[1] / "blobs" / "123.incomplete").write_bytes(b"x" * 1000)
    return tmp_path


def models(home: Path, *arguments: str | Path, **env: str) -> Done:
    return specdec("models", *arguments, env={"HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub")} | env)


def test_every_model_of_the_cache_is_listed_with_its_family(home: Path) -> None:
    done = models(home)
    assert done.code == 0
    assert re.search(r"^bpe 40 \w{6}\n  owner/one:F16 .*F16 +llama +160\n  owner/one:Q8_0 ", done.text, re.MULTILINE)
    assert "projector: cannot run by itself\n  hf:owner/one/mmproj-F16.gguf" in done.text
    assert "broken\n  owner/one:Q4_0  500 kB\n    is truncated." in done.text
    assert "owner/one  1.00 kB, an interrupted download" in done.text
    assert done.err == ""
    assert "\x1b" not in done.text


def test_the_json_document_is_whole_and_described(home: Path) -> None:
    document = models(home, "--json").document
    assert document["schema"] == "specdec.models/1"
    assert [one["kind"] for one in document["models"]] == ["model", "model", "projector"]
    families = {one["family"] for one in document["models"] if one["runs"]}
    assert len(families) == 1
    assert document["unfinished"] == [{"reference": "owner/one", "bytes": 1000, "reason": "an interrupted download"}]
    page = PAGE.read_text(encoding="utf-8")
    rows = [document, *document["models"], *document["broken"], *document["unfinished"]]
    assert not [key for row in rows for key in row if f"`{key}`" not in page]


def test_folders_are_searched_too_and_nothing_is_listed_twice(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    write_vocab_gguf(folder / "mine.gguf", WORDS, tensors=TINY)
    document = models(home, "--in", folder, "--in", folder, "--in", home / "hub", "--json").document
    found = sorted(one["reference"] for one in document["models"] if one["runs"])
    assert found == sorted(["owner/one:F16", "owner/one:Q8_0", str(folder / "mine.gguf")])


def test_an_empty_cache_says_where_it_looked_and_how_to_get_a_model(tmp_path: Path) -> None:
    done = models(tmp_path)
    assert done.code == 0
    assert done.text.startswith(f"No models in {tmp_path / 'hub'}.")
    assert "specdec pull owner/repo:Q4_K_M" in done.text


def test_a_folder_that_is_not_there_is_an_error(home: Path) -> None:
    done = models(home, "--in", home / "nowhere")
    assert (done.code, done.out) == (2, b"")
    assert "nowhere is not there." in done.err
