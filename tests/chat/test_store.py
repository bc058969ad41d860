"""A session's file: whole or not at all, checked when it is read, never over another's."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.chat import store
from specdec_cli.chat.record import dump, parse
from specdec_cli.chat.store import Saved, Store, other_models, place
from specdec_cli.chat.talk import Document, ModelName, Talk
from specdec_cli.decoding.contracts import FinishReason
from specdec_cli.errors import UsageError
from tests.chat.made import MODELS, turn

TURN = turn("Grüße?\n```", "Hallo!\u2028", thinking="Hm.", documents=(Document("a.txt", "x"),), finish=FinishReason.INTERRUPTED)
SAVED = Saved(
    Talk("Be brief.", (TURN, turn("2?", "")), 1), {"temp": 0.5, "draft": "ngram", "stop": ["a"]}, MODELS, "2026", "2026"
)


def test_a_talk_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    file = Store(tmp_path / "new" / "a.json")
    assert file.load() is None
    assert file.save(SAVED) == tmp_path / "new" / "a.json"
    found = Store(tmp_path / "new" / "a.json").load()
    assert found is not None
    assert (found.talk, found.settings, found.models, found.created) == (SAVED.talk, SAVED.settings, SAVED.models, "2026")
    assert found.changed > "2026-"
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["a.json"]


@given(st.text(), st.text(), st.none() | st.text())
def test_every_text_survives(question: str, answer: str, system: str | None) -> None:
    talk = Talk(system, (turn(question, answer),))
    assert parse({"schema": "specdec.chat/1"} | json.loads(json.dumps(dump(talk, {}, MODELS, "", ""))))[0] == talk


def test_a_crash_between_write_and_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Store(tmp_path / "a.json")
    file.save(Saved(Talk("first")))
    with monkeypatch.context() as patch:

        def crash(self: Path, target: Path) -> Path:
            raise KeyboardInterrupt

        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            file.save(Saved(Talk("second")))
    found = Store(tmp_path / "a.json").load()
    assert found is not None
    assert found.talk.system == "first"
    assert file.save(Saved(Talk("third"))) == tmp_path / "a.json"


def test_a_file_that_cannot_be_written_says_so_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        Store(tmp_path / "file" / "a.json").save(SAVED)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="cannot be written") as caught:
        Store(tmp_path / "a.json").save(SAVED)
    assert "No space left" in caught.value.why
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_two_writers_lose_neither_talk(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    Store(path).save(Saved(Talk("begun")))
    one, two = Store(path), Store(path)
    one.load()
    two.load()
    assert one.save(Saved(Talk("one"))) == path
    assert two.save(Saved(Talk("two"))) == two.path == tmp_path / "a-2.json"
    assert two.save(Saved(Talk("two again"))) == tmp_path / "a-2.json"
    assert one.save(Saved(Talk("one again"))) == path
    assert [store.read(file).talk.system for file in (path, two.path)] == ["one again", "two again"]


def test_a_new_session_does_not_overwrite_one_begun_meanwhile(tmp_path: Path) -> None:
    one, two = Store(tmp_path / "a.json"), Store(tmp_path / "a.json")
    assert one.load() is two.load() is None
    one.save(Saved(Talk("one")))
    assert two.save(Saved(Talk("two"))).name == "a-2.json"


def test_a_file_that_was_deleted_meanwhile_is_not_taken_for_another_writers(tmp_path: Path) -> None:
    file = Store(tmp_path / "a.json")
    file.save(Saved(Talk("one")))
    file.path.unlink()
    assert file.save(Saved(Talk("two"))) == tmp_path / "a.json"


def changed(**changes: Any) -> Any:
    record = {"schema": "specdec.chat/1"} | dump(SAVED.talk, SAVED.settings, SAVED.models, "", "")
    return json.loads(json.dumps(record | changes))


def in_turn(**changes: Any) -> Any:
    record = changed()
    record["turns"][0] |= changes
    return record


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ([], "no JSON object"),
        ({}, "not a chat"),
        (changed(schema="specdec.chat/2"), r"another version of specdec \(specdec.chat/2\)"),
        (changed(schema=1), "not a chat"),
        (changed(turns={}), '"turns" is not a list'),
        (changed(turns=[3]), r'"turns\[0\]" is not an object'),
        (changed(system=3), '"system" is not text'),
        (changed(settings=[]), '"settings" is not an object'),
        (changed(n_dropped=3), "there are 2 turns"),
        (changed(n_dropped=-1), '"n_dropped" is not a count'),
        (changed(n_dropped=True), '"n_dropped" is not a count'),
        (changed(later=1), '"later" is no key .* later version'),
        (in_turn(later=1), r'"turns\[0\].later" is no key'),
        (in_turn(finish="gone"), r'"turns\[0\].finish" is .gone.'),
        (in_turn(ids=[1, "2"]), r'"turns\[0\].ids" holds'),
        (in_turn(answer=None), r'"turns\[0\].answer" is not text'),
        (in_turn(documents=[{"name": "a"}]), r'"turns\[0\].documents\[0\].text" is missing'),
        (in_turn(figures=3), r'"turns\[0\].figures" is not an object'),
        (in_turn(models=[{"role": "target", "label": "x", "n_bytes": "1"}]), r'n_bytes" is not a count'),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_it_is_left_alone(tmp_path: Path, record: Any, why: str) -> None:
    path = tmp_path / "a.json"
    data = json.dumps(record)
    path.write_text(data, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Store(path).load()
    caught.match("not a session")
    assert re.search(why, caught.value.why), caught.value.why
    assert path.read_text(encoding="utf-8") == data


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"a": ' * 50_000, b"NaN", b"\x00" * 100])
def test_what_is_no_json_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not a session"):
        store.read(path)


def test_hostile_sizes_and_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"1" * 100)
    monkeypatch.setattr(store, "MAX_BYTES", 99)
    with pytest.raises(UsageError) as caught:
        store.read(path)
    assert "100 bytes" in caught.value.why
    for wrong in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(UsageError):
            store.read(wrong)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_json_value_is_a_traceback(value: Any) -> None:
    for key in changed():
        with pytest.raises(ValueError, match=r"[a-z]"):
            parse(changed(**{key: value, "later": value}))


@pytest.mark.parametrize("name", ["my talk", "a", "über-1.2", "x" * 100])
def test_names_become_files_of_the_sessions_folder(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECDEC_SESSIONS", str(tmp_path))
    assert place(name) == tmp_path / f"{name}.json"


@pytest.mark.parametrize(
    "name",
    ["", " ", "..", ".", ".a", "a/b", "a\\b", "../a", "a\x00", "a\n", "a\u202e", "c:a", "a ", "a.", "nul", "COM1.x", "x" * 101],
)
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        place(name)


def test_a_talk_with_another_target_gets_a_note() -> None:
    other = (ModelName("target", "other.gguf", 5),)
    note = other_models(SAVED, other)
    assert note is not None
    assert "target.gguf" in note
    assert "other.gguf" in note
    assert other_models(SAVED, MODELS) is None
    assert other_models(SAVED, (MODELS[0],)) is None
    assert other_models(Saved(Talk(), {}, MODELS), other) is None
    assert "another size" in (other_models(SAVED, (ModelName("target", "target.gguf", 5),)) or "")


def test_a_file_of_the_persons_own_choice_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    store.write(path, SAVED, overwrite=False)
    with pytest.raises(UsageError, match="already"):
        store.write(path, SAVED, overwrite=False)
    store.write(path, Saved(Talk("other")), overwrite=True)
    assert store.read(path).talk.system == "other"


def test_every_key_stands_on_the_schemas_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json" / "chat.md").read_text(encoding="utf-8")

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for inner in value.values() for key in keys(inner)}
        return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()

    assert not [key for key in sorted(keys(changed(settings={}))) if f"`{key}`" not in page]
