"""--draft auto: the best draft at hand is taken, whatever else lies there, and none where none is a clear gain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specdec_cli import auto, candidates
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing import pairs
from specdec_cli.settings import profiles
from tests.pairing.small_models import OTHER_TOKENS, PAIRS, write_model


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty hub cache, and profiles of the test's own."""
    monkeypatch.setattr(candidates, "cached_models", list)
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path / "profiles",))
    folder = tmp_path / "profiles" / pairs.FOLDER
    folder.mkdir(parents=True)
    (folder / "toy.yaml").write_text(PAIRS, encoding="utf-8")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_model(tmp_path / "target.gguf", 1024, "Toy Big")


def test_the_best_draft_beside_the_target_is_taken(tmp_path: Path, target: Path) -> None:
    write_model(tmp_path / "middle.gguf", 300, "Toy Small")
    write_model(tmp_path / "small.gguf", 100, "Toy Small")
    taken = auto.local_draft(target, read_header(target))
    assert taken is not None
    assert taken.candidate.header.path.name == "small.gguf"


def test_a_draft_in_the_hub_cache_is_taken_by_its_reference(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    path = write_model(tmp_path / "cache" / "small.gguf", 100, "Toy Small")
    cached = candidates.Found(path, "owner/Toy-Small-GGUF:F32", path.stat().st_size)
    monkeypatch.setattr(candidates, "cached_models", lambda: [cached])
    taken = auto.local_draft(target, read_header(target))
    assert taken is not None
    assert taken.candidate.reference == "owner/Toy-Small-GGUF:F32"


def test_broken_and_foreign_files_are_passed_over(tmp_path: Path, target: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "folder.gguf").mkdir()
    write_model(tmp_path / "foreign.gguf", 50, "Toy Small", OTHER_TOKENS)
    assert auto.local_draft(target, read_header(target)) is None
    write_model(tmp_path / "small.gguf", 100, "Toy Small")
    assert auto.local_draft(target, read_header(target)) is not None


def test_a_small_gain_is_none(tmp_path: Path, target: Path) -> None:
    write_model(tmp_path / "half.gguf", 700, "Toy Small")
    assert auto.local_draft(target, read_header(target)) is None


def test_what_does_not_fit_is_not_taken(tmp_path: Path, target: Path) -> None:
    write_model(tmp_path / "small.gguf", 100, "Toy Small")
    write_model(tmp_path / "smaller.gguf", 60, "Toy Small")
    taken = auto.local_draft(target, read_header(target), fits=lambda draft: draft.path.name == "small.gguf")
    assert taken is not None
    assert taken.candidate.header.path.name == "small.gguf"


def test_time_that_is_up_ends_the_search(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "small.gguf", 100, "Toy Small")
    monkeypatch.setattr(auto, "_LONGEST_S", -1.0)
    assert auto.local_draft(target, read_header(target)) is None


def test_the_known_draft_is_named_where_none_is_here(target: Path) -> None:
    known = auto.known_draft(read_header(target))
    assert known is not None
    assert known.draft.reference == "owner/Toy-Small-GGUF:Q4_0"


def test_no_draft_is_known_for_a_model_of_no_family(tmp_path: Path) -> None:
    assert auto.known_draft(read_header(write_model(tmp_path / "chatty.gguf", 1024, "Chatty"))) is None


def test_a_target_whose_cache_cannot_go_back_is_known_by_its_architecture(target: Path) -> None:
    header = read_header(target)
    recurrent = replace(header, metadata={**header.metadata, "general.architecture": "mamba"})
    assert auto.can_go_back(header)
    assert not auto.can_go_back(recurrent)


def test_a_file_without_a_vocabulary_has_no_drafts(tmp_path: Path) -> None:
    from tests.gguf_files import TINY, write_gguf

    header = read_header(write_gguf(tmp_path / "bare.gguf", {}, TINY))
    assert auto.local_draft(header.path, header) is None
    assert auto.known_draft(header) is None


def test_each_model_is_found_once_and_the_smallest_first(tmp_path: Path, target: Path) -> None:
    small = write_model(tmp_path / "small.gguf", 64, "Toy Small")
    middle = write_model(tmp_path / "middle.gguf", 128, "Toy Small")
    (tmp_path / "part-00001-of-00002.gguf").write_bytes(b"a part without the other")
    found = candidates.gather(target, [tmp_path])
    assert [each.path for each in found] == [small, middle]


def test_hundreds_of_scraps_do_not_hide_a_draft(tmp_path: Path, target: Path) -> None:
    for i in range(250):
        (tmp_path / f"scrap-{i}.gguf").write_bytes(b"GGUF")
    write_model(tmp_path / "small.gguf", 100, "Toy Small")
    assert auto.local_draft(target, read_header(target)) is not None
