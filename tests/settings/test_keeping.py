"""A profile that is written reads as it was meant, and lies where profiles are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import UsageError
from specdec_cli.settings import keeping, profiles


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of the user's own."""
    shipped = profiles.folders()[1]
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path, shipped))
    return tmp_path


def test_what_was_written_is_read(own: Path) -> None:
    path = keeping.place("mine", overwrite=False)
    settings = {
        "model": "C:\\a: b #c.gguf",
        "draft": "ngram",
        "draft-fixed": 5,
        "flash-attn": "on",
        "lora": ["x.gguf", "y.gguf"],
    }
    keeping.write(path, "What: it is.", settings, ["one\ntwo: three", "# four"])
    assert path.parent == own
    assert profiles.faults(path) == []
    found = profiles.load("mine")
    assert found.description == "What: it is."
    assert {name: entry.texts for name, entry in found.entries.items()} == {
        "model": "C:\\a: b #c.gguf", "draft": "ngram", "draft_fixed": "5", "flash_attn": "on", "lora": ("x.gguf", "y.gguf"),
    }  # fmt: skip
    assert list(own.iterdir()) == [path]


def test_a_name_that_is_taken_is_refused(own: Path) -> None:
    (own / "mine.yaml").write_text("", encoding="utf-8")
    for name in ("mine", "greedy"):
        with pytest.raises(UsageError) as caught:
            keeping.place(name, overwrite=False)
        assert "--overwrite" in caught.value.fix
        assert keeping.place(name, overwrite=True) == own / f"{name}.yaml"


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "-x"])
def test_a_name_that_no_file_can_have_is_refused(own: Path, name: str) -> None:
    with pytest.raises(UsageError):
        keeping.place(name, overwrite=True)


def test_a_profile_that_cannot_take_its_place_leaves_nothing_behind(own: Path) -> None:
    (own / "x.yaml" / "in").mkdir(parents=True)
    with pytest.raises(UsageError):
        keeping.write(own / "x.yaml", "", {}, [])
    assert [path.name for path in own.iterdir()] == ["x.yaml"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError):
        keeping.write(tmp_path / "file" / "x.yaml", "", {}, [])


@given(st.text())
def test_every_model_gives_a_name(model: str) -> None:
    assert profiles.is_name(keeping.name_for(model))


def test_the_parts_of_a_split_model_leave_no_trace() -> None:
    assert keeping.name_for("big-Q4_K_M-00001-of-00003") == "big-Q4_K_M"
