"""The settings of a session come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_cli.chat.store import Saved, Store, place
from specdec_cli.chat.talk import Talk
from specdec_cli.cli.sessions import kept_settings, resumed
from specdec_cli.settings.resolve import Raw, resolve

GIVEN: dict[str, Raw] = {
    "model": "demo",
    "draft": ["ngram"],
    "draft_fixed": "4",
    "temp": "0.5",
    "logit_bias": ["3-inf,4+1"],
    "stop": ["a b", "c,d"],
    "ctx_size": "512",
    "mmap": False,
    "gpu_layers": "all",
    "context": "trim",
    "markdown": True,
    "json": True,
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_SESSIONS", str(tmp_path))


def test_what_was_decided_comes_back_and_a_flag_wins() -> None:
    first = resolve(GIVEN, {}, command="chat")
    kept = json.loads(json.dumps(kept_settings(first)))
    Store(place("s")).save(Saved(Talk(), settings=kept))
    given: dict[str, Raw] = {"session": "s", "temp": "0.7"}
    again, session = resumed(given, resolve(given, {}, command="chat"))
    assert session.saved is not None
    for name in GIVEN:
        if name not in ("temp", "json"):
            assert again.decided[name].value == first.decided[name].value, name
    assert again.value("temp", float) == 0.7
    assert not again.value("json", bool)


def test_a_flag_puts_out_what_excludes_it() -> None:
    Store(place("s")).save(Saved(Talk(), settings={"draft_fixed": 4, "grammar": "x", "gone": "1"}))
    given: dict[str, Raw] = {"session": "s", "draft_max": "8", "json_schema": "{}"}
    again, _ = resumed(given, resolve(given, {}, command="chat"))
    assert again.value("draft_max", int) == 8
    assert again.maybe("draft_fixed", int) is None
    assert again.maybe("grammar", str) is None


def test_what_a_session_does_not_keep_is_not_taken_from_its_file(tmp_path: Path) -> None:
    strange = {"history": str(tmp_path / "h"), "file": "x", "system_prompt": "y", "list_sessions": True, "top_k": 7}
    Store(place("s")).save(Saved(Talk(), settings=strange))
    again, _ = resumed({"session": "s"}, resolve({"session": "s"}, {}, command="chat"))
    assert again.maybe("history", Path) is None
    assert again.maybe("file", Path) is None
    assert again.maybe("system_prompt", str) is None
    assert again.value("top_k", int) == 7


def test_a_new_session_has_nothing_yet() -> None:
    settings = resolve({"session": "new"}, {}, command="chat")
    again, session = resumed({"session": "new"}, settings)
    assert again is settings
    assert session.saved is None
