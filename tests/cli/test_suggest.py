"""The command suggest: what it looks at, what it says, and what a program reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec_cli import candidates
from specdec_cli.cli.app import main
from specdec_cli.settings import profiles
from tests.cli.command import Done, specdec
from tests.gguf_files import write_vocab_gguf
from tests.hub.standin import StandIn
from tests.pairing.small_models import OTHER_TOKENS, PAIRS, write_model

PAGE = Path(__file__).parents[2] / "docs" / "json" / "suggest.md"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A target, and beside it a draft."""
    folder = tmp_path / "models"
    folder.mkdir()
    write_model(folder / "target.gguf", 1024, "Toy Big", metadata={"general.basename": "Toy"})
    write_model(folder / "small.gguf", 128, "Toy Small", metadata={"general.basename": "Toy"})
    return folder


def _suggest(models: Path, *arguments: str | Path) -> Done:
    return specdec("suggest", models / "target.gguf", *arguments, env={"HF_HUB_CACHE": str(models / "hub" / "hub")})


def test_the_draft_beside_the_target_is_suggested_with_the_command(models: Path) -> None:
    done = _suggest(models)
    assert done.code == 0
    assert "small.gguf" in done.text
    assert re.search(r"^  specdec run \S*target\.gguf'? --draft \S*small\.gguf'?$", done.text, re.MULTILINE)
    assert "--draft ngram" in done.text
    assert "estimated, not measured" in done.text
    assert "\x1b" not in done.text


def test_a_folder_is_looked_through(models: Path, tmp_path: Path) -> None:
    deep = tmp_path / "elsewhere" / "deep"
    deep.mkdir(parents=True)
    write_model(deep / "tiny.gguf", 64, "Toy Small", metadata={"general.basename": "Toy"})
    found = [each["path"] for each in _suggest(models, "--in", tmp_path / "elsewhere", "--json").document["drafts"]]
    assert found == [str(deep / "tiny.gguf"), str(models / "small.gguf")]


def test_without_any_draft_the_answer_is_no_and_names_ngram(models: Path) -> None:
    (models / "small.gguf").unlink()
    done = _suggest(models)
    assert done.code == 1
    assert "No model on this machine" in done.text
    assert done.text.rstrip().endswith("--draft ngram")


def test_what_cannot_be_a_draft_is_counted(models: Path) -> None:
    (models / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    write_model(models / "other.gguf", 64, "Toy Small", OTHER_TOKENS)
    write_model(models / "twin.gguf", 1024, "Toy Big")
    done = _suggest(models)
    assert done.code == 0
    assert "1 has another vocabulary" in done.text
    assert "1 is as large as the target" in done.text
    assert "1 file cannot be read" in done.text
    document = _suggest(models, "--json").document
    assert {each["reason"] for each in document["left_out"]} == {"vocabulary", "size"}
    assert [Path(each["draft"]).name for each in document["unreadable"]] == ["broken.gguf"]


def test_the_smallest_of_a_family_has_no_drafts(smollm2: Path, tmp_path: Path) -> None:
    done = specdec("suggest", smollm2, "--json", env={"HF_HOME": str(tmp_path)})
    assert done.document["target"]["family"] == "SmolLM2"
    assert done.document["known"] == []
    assert done.code == 1


def test_known_pairs_are_named_with_licence_and_source(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    own = models / "profiles"
    (own / "pairs").mkdir(parents=True)
    (own / "pairs" / "toy.yaml").write_text(PAIRS, encoding="utf-8")
    (own / "pairs" / "broken.yaml").write_text("family: [", encoding="utf-8")
    monkeypatch.setattr(profiles, "folders", lambda: (own,))
    monkeypatch.setattr(candidates, "cached_models", list)
    (models / "small.gguf").unlink()
    assert main(["suggest", str(models / "target.gguf"), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    (entry,) = document["known"]
    assert (entry["licence"], entry["source"], entry["here"]) == ("MIT", "https://example.org/toy", None)
    assert entry["same_family"]
    assert entry["command"].endswith("--draft owner/Toy-Small-GGUF:Q4_0")
    assert "broken.yaml" in document["notices"][0]
    assert main(["suggest", str(models / "target.gguf")]) == 0
    assert "owner/Toy-Small-GGUF:Q4_0" in capfd.readouterr().out


def test_a_known_draft_in_the_hub_cache_is_told_as_that(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    own = models / "profiles"
    (own / "pairs").mkdir(parents=True)
    (own / "pairs" / "toy.yaml").write_text(PAIRS.replace("GGUF:Q4_0", "GGUF:F32"), encoding="utf-8")
    (models / "cache").mkdir()
    path = (models / "small.gguf").rename(models / "cache" / "toy-small-f32.gguf")
    cached = candidates.Found(path, "owner/Toy-Small-GGUF:F32", path.stat().st_size)
    monkeypatch.setattr(profiles, "folders", lambda: (own,))
    monkeypatch.setattr(candidates, "cached_models", lambda: [cached])
    assert main(["suggest", str(models / "target.gguf"), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [each["draft"] for each in document["drafts"]] == ["owner/Toy-Small-GGUF:F32"]
    assert [each["here"] for each in document["known"]] == [str(path)]


def test_a_model_of_the_hub_cache_is_suggested_by_its_reference(models: Path) -> None:
    repository = models / "hub" / "hub" / "models--owner--Toy-Small-GGUF"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    (models / "small.gguf").rename(snapshot / "toy-small-f32.gguf")
    document = _suggest(models, "--json").document
    assert [each["draft"] for each in document["drafts"]] == ["owner/Toy-Small-GGUF:F32"]
    assert document["drafts"][0]["command"].endswith("--draft owner/Toy-Small-GGUF:F32")


def test_of_a_target_on_the_hub_only_the_header_is_fetched(models: Path, tmp_path: Path) -> None:
    standin = StandIn()
    content = (models / "target.gguf").read_bytes()
    standin.add("owner/Toy-Big-GGUF", **{"toy-big-q4_k_m.gguf": content})
    try:
        env = {"HF_ENDPOINT": standin.endpoint, "HF_HOME": str(tmp_path / "home")}
        done = specdec("suggest", "owner/Toy-Big-GGUF", "--in", models, "--json", env=env)
        assert done.code == 0
        assert done.document["target"]["reference"] == "hf:owner/Toy-Big-GGUF/toy-big-q4_k_m.gguf"
        assert [Path(each["path"]).name for each in done.document["drafts"]] == ["small.gguf"]
        assert done.document["drafts"][0]["command"].startswith("specdec run owner/Toy-Big-GGUF --draft ")
        assert standin.n_sent < len(content) / 2
        assert specdec("suggest", "owner/Toy-Big-GGUF", "--offline", env=env).code == 2
    finally:
        standin.close()


def test_a_recurrent_target_is_told_that_nothing_drafts_for_it(recurrent: Path, tmp_path: Path) -> None:
    done = specdec("suggest", recurrent, env={"HF_HOME": str(tmp_path)})
    assert done.code == 1
    assert "cannot drop tokens" in done.text
    assert "--draft" not in done.text


def test_mtp_layers_are_named_and_not_promised(models: Path) -> None:
    metadata = {"llama.nextn_predict_layers": 1, "llama.block_count": 2}
    write_model(models / "target.gguf", 1024, "Toy Big", metadata=metadata)
    done = _suggest(models)
    assert "(MTP)" in done.text
    assert "does not" in done.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "There is no target"),
        (("none.gguf",), "none.gguf does not exist"),
        (("TARGET", "--in", "nowhere"), "nowhere"),
        (("TARGET", "more"), "no use for the word more"),
        (("TARGET", "--temp", "1"), "does not take --temp"),
    ],
)
def test_what_cannot_be_meant_is_refused(models: Path, arguments: tuple[str, ...], says: str) -> None:
    words = [str(models / "target.gguf") if word == "TARGET" else word for word in arguments]
    done = specdec("suggest", *words, env={"HF_HOME": str(models / "hub")})
    assert done.code == 2
    assert done.out == b""
    assert says in done.err


def test_a_vocabulary_alone_is_no_target(models: Path) -> None:
    path = write_vocab_gguf(models / "words.gguf", ["a", "b"])
    done = specdec("suggest", path, env={"HF_HOME": str(models / "hub")})
    assert done.code == 2
    assert "vocabulary only" in done.err


def test_the_page_names_every_key(models: Path) -> None:
    """Every key of a document with something in each part."""
    (models / "broken.gguf").write_bytes(b"GGUF")
    write_model(models / "other.gguf", 64, "Toy Small", OTHER_TOKENS)
    write_model(models / "almost.gguf", 960, "Toy Small")
    document = _suggest(models, "--json").document
    assert document["schema"] == "specdec.suggest/1"
    for part in ("drafts", "not_worth", "left_out", "unreadable", "draft_free"):
        assert document[part], part
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in sorted(set(_keys(document))) if f"`{key}`" not in page] == []


def test_the_page_names_every_key_of_a_known_draft() -> None:
    from specdec_cli.cli import suggesting
    from specdec_cli.pairing.pairs import KnownDraft
    from specdec_cli.pairing.suggest import Known, estimate

    draft = KnownDraft("owner/repo", "Name", 10, None, "MIT", "https://example.org", "")
    document = suggesting._known("target.gguf", Known(draft, "Toy", True, 10, estimate(0.1, 0.7), estimate(0.1, 0.7, 0.1)), [])
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in document if f"`{key}`" not in page] == []
    json.dumps(document)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
