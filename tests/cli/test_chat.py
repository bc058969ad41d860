"""specdec chat through pipes: a turn a line, commands, sessions, documents, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.cli import slash
from specdec_cli.settings.table import SETTINGS
from tests.cli.command import Done, specdec
from tests.cli.models import write_recurrent

pytestmark = pytest.mark.model

DOCS = Path(__file__).parents[2] / "docs"
SHORT = ("-n", "8", "-c", "1024", "-t", "1", "--temp", "0")
ASKED = "What is the capital of France?"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"SPECDEC_SESSIONS": str(tmp_path / "sessions"), "SPECDEC_HISTORY": str(tmp_path / "history")}


def chat(text: str, *flags: str | Path, env: dict[str, str], target: str = "demo") -> Done:
    return specdec("chat", *([target] if target else []), *SHORT, *flags, stdin=text.encode(), env=env)


def objects(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.text.splitlines()]


def test_each_line_is_a_turn_and_standard_output_holds_the_answers_alone(env: dict[str, str], tmp_path: Path) -> None:
    done = chat(f"{ASKED}\n\nAnd of \\\nItaly?", env=env)
    assert done.code == 0, done.err
    assert done.text.count("\n") == 2
    assert "\x1b" not in done.text + done.err
    lines = [line for line in done.err.splitlines() if "of 1024 context" in line]
    assert len(lines) == 2
    assert "reused)" in lines[1]
    assert not (tmp_path / "history").exists()
    quiet = chat(f"{ASKED}\nAnd of \\\nItaly?", "-q", env=env)
    assert (quiet.out, quiet.err) == (done.out, "")


def test_a_pipe_may_hold_one_turn(env: dict[str, str]) -> None:
    (turn,) = objects(chat("one\ntwo\n", "--single", "--json", env=env))
    assert turn["question"] == "one\ntwo"


def test_what_fails_is_told_and_the_talk_goes_on(env: dict[str, str]) -> None:
    done = chat(f"/undo\n/stats now\n/quit\n/temp hot\n/reg\n/regenn\n/t\n/usr/bin/env?\n//help\n{ASKED}\n", "--json", env=env)
    assert done.code == 1
    # the first one is the turn that /reg could not make
    assert [turn.get("question") for turn in objects(done)] == [None, "/usr/bin/env?", "/help", ASKED]
    for part in (
        "There is no question yet",
        "/stats takes nothing behind it.",
        "It was given ",
        "Use /exit, or two slashes",
        "/temp hot is not a finite number.",
        "/temp takes a number from 0 to 100",
        "Use /regen, or two slashes",
        "/t may be /tokens or /temp or /top-k or /top-p or /thinking.",
    ):
        assert part in done.err, part


def test_a_turn_that_cannot_be_is_an_object_too(env: dict[str, str]) -> None:
    done = chat(f"{'word ' * 1200}\n{ASKED}\n", "--json", env=env)
    assert done.code == 1
    failed, answered = objects(done)
    assert set(failed) == {"error", "notices"}
    assert failed["error"]["what"]
    assert answered["text"]


def test_commands_change_the_talk(env: dict[str, str], tmp_path: Path) -> None:
    file, export = tmp_path / "talk.json", tmp_path / "talk.md"
    script = [
        ASKED, "/regen", "/edit And of Italy?", "/undo", ASKED, "/system Answer in French.", "Really?", "/tokens", "/stats",
        f"/save {export}", f"/save {export}", f"/save! {file}", "/clear", "/clear", "/undo", "/clear", f"/save {tmp_path}",
        f"/save {tmp_path / 'new' / 'x.md'}", f"/load {file}", "Why?", "/seed 7",
        "/top-k", "/context trim", "/thinking off", "/markdown on", "/exit", "never read",
    ]  # fmt: skip
    done = chat("\n".join(script), "--json", env=env)
    turns = objects(done)
    assert [turn["question"] for turn in turns] == [ASKED, ASKED, "And of Italy?", ASKED, "Really?", "Why?"]
    assert turns[1]["seed"] == turns[0]["seed"] + 1
    assert turns[3]["tokens"] == turns[0]["tokens"]
    assert turns[5]["prompt"]["tokens"] > turns[4]["prompt"]["tokens"]
    for part in (
        "Taken back: And of Italy?", "System prompt: Answer in French.", "[+ ] accepted", "rounds by draft length",
        f"Saved {export}: 2 turns.", f"There is a file {export} already.", "takes its place.", "Back: 2 turns.",
        "Loaded talk.json: 2 turns.", "seed 7 (/seed)", "top-k 40 (default)", "drops the oldest turns", "Thinking is hidden.",
        "Markdown is rendered.", "The talk is empty.", f"{tmp_path} is a folder.",
        f"Saved {tmp_path / 'new' / 'x.md'}: 0 turns.",
    ):  # fmt: skip
        assert part in done.err, part
    assert ASKED in export.read_text(encoding="utf-8")
    assert done.code == 1  # of the file that was there already


def test_drafter_and_target_change_in_the_middle_of_a_talk(env: dict[str, str], smollm2: Path, smollm2_q4_0: Path) -> None:
    script = [
        "Hi", f"/draft {smollm2_q4_0}", "/k 3", "Again", "/k 600", "/draft off", "/k", "Once more", "/draft nothing.gguf",
        "/draft ngram", f"/model {smollm2_q4_0}", "And now?", "/model no.gguf", "Still there?",
    ]  # fmt: skip
    done = chat("\n".join(script), "--json", "--draft", "ngram", env=env)
    turns = objects(done)
    assert [turn["question"] for turn in turns] == ["Hi", "Again", "Once more", "And now?", "Still there?"]
    assert turns[1]["statistics"]["rounds_by_drafter"].get("model", 0) > 0
    assert turns[2]["statistics"]["drafted"] == 0
    assert all(turn["prompt"]["reused"] > 20 for turn in turns[1:3])
    assert turns[3]["prompt"]["reused"] == 0
    labels = [[model["label"] for model in turn["models"] if model["role"] == "target"] for turn in turns]
    assert labels == [[smollm2.name]] * 3 + [[smollm2_q4_0.name]] * 2
    for part in ("Drafts: 3 tokens in every round.", "There is no drafter", "nothing.gguf", "no.gguf"):
        assert part in done.err, part
    assert f"Drafting with model: {smollm2_q4_0.name}." in done.err


def test_a_change_of_the_target_says_what_it_decides_once(env: dict[str, str], smollm2_q4_0: Path, tmp_path: Path) -> None:
    mute = write_recurrent(tmp_path / "mute.gguf")
    done = chat(f"/model {smollm2_q4_0}\n/model {mute}\nHi\n", env=env)
    assert done.err.count("(--draft auto)") == 2  # at the start, and for the change; none for going back
    assert "This model has no chat template." in done.err
    assert done.text.strip()


def test_a_session_goes_on_with_its_settings(env: dict[str, str], tmp_path: Path) -> None:
    first = chat("My name is Ann.\n/top-k 7\n", "--session", "ann", "-sys", "Be brief.", env=env)
    assert first.code == 0, first.err
    done = specdec("chat", "--session", "ann", "--json", "-c", "512", stdin=b"/top-k\n/system\nWho am I?\n", env=env)
    assert done.code == 0, done.err
    (turn,) = objects(done)
    assert turn["prompt"]["tokens"] > 40
    assert turn["statistics"]["emitted"] <= 8  # -n of the first time
    assert turn["context"]["size"] == 512  # a flag wins
    assert "top-k 7" in done.err
    assert "System prompt: Be brief." in done.err
    kept = json.loads((tmp_path / "sessions" / "ann.json").read_text(encoding="utf-8"))
    assert len(kept["turns"]) == 2
    listed = specdec("chat", "--list-sessions", "--json", env=env).document
    assert [(each["name"], each["turns"], each["first_question"]) for each in listed["sessions"]] == [
        ("ann", 2, "My name is Ann.")
    ]
    assert "ann" in specdec("chat", "--list-sessions", env=env).text


def test_documents_are_counted_before_they_are_sent(env: dict[str, str], tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "two words.txt"
    first.write_text("The code is 4711.\n", encoding="utf-8")
    second.write_bytes("\ufeffUnd \u00e4.\r\n".encode("utf-16-le"))
    done = chat(
        f"/read {first}\n/undo\n/read {second}\n/read {tmp_path}/none\nWhich code?\nWhy?\n", "-f", first, "--json", env=env
    )
    turns = objects(done)
    assert "Taken back: first.txt, first.txt" in done.err
    assert [turn["documents"] for turn in turns] == [["two words.txt"], []]
    assert "first.txt goes with the next question:" in done.err
    assert "tokens to pass" in done.err
    assert done.code == 1


def test_usage_errors_come_before_a_model_is_loaded(env: dict[str, str]) -> None:
    for flags, part in (
        (("--context", "big"), "takes one of full, trim"),
        (("--session", "a/b"), "session"),
        (("-p", "x"), "It is a flag of specdec run"),
    ):
        done = specdec("chat", "demo", *flags, env=env)
        assert done.code == 2
        assert part in done.err
    assert "specdec chat MODEL.gguf" in specdec("chat", env=env).err
    assert "There is no model" in specdec("chat", "--session", "new", env=env).err


def test_the_page_about_turns_names_every_key(env: dict[str, str]) -> None:
    page = (DOCS / "json" / "chat-turns.md").read_text(encoding="utf-8")

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    (turn,) = objects(chat("Hi\n", "--json", env=env))
    turn["statistics"]["rounds_by_drafter"] = {}
    assert [key for key in sorted(keys(turn)) if f"`{key}`" not in page] == []


def test_every_command_is_completed_by_settings_that_there_are() -> None:
    sampling = [name for name in slash.COMMANDS if name.replace("-", "_") in SETTINGS]
    assert {"temp", "top-k", "top-p", "min-p", "repeat-penalty", "seed"} <= set(sampling)
