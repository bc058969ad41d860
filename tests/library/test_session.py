"""The library on a real model: what a program loads, says, breaks off and keeps."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, assert_type

import pytest

from specdec_cli import (
    BackendError,
    Chat,
    FinishReason,
    Generation,
    GenerationOptions,
    GrammarError,
    ModelFileError,
    PromptError,
    Round,
    RunStats,
    Session,
    SessionStats,
    SpecdecError,
    Turn,
    UsageError,
)
from specdec_cli.llama.context import Context
from tests.cli.models import chat_template, patched
from tests.gguf_files import copy_with_changes

pytestmark = pytest.mark.model

SHORT: GenerationOptions = {"n_predict": 8, "temperature": 0}
STORY = "Write a short story about a dragon who lives in a cave by the sea."
# One thread and flash attention: there all widths agree, so the text may not depend on the drafter.
STEADY: Mapping[str, str] = {"flash_attn": "on"}


def load(path: Path, draft: str = "ngram", n_ctx: int = 512, **more: Any) -> Session:
    return Session.load(path, draft, n_ctx=n_ctx, n_threads=1, settings=STEADY, **more)


@pytest.fixture(scope="module")
def session(smollm2: Path) -> Iterator[Session]:
    with load(smollm2) as loaded:
        yield loaded


@pytest.mark.parametrize(
    "prompt", [None, 3, b"x", ["a"], [{}], [{"role": "user"}], [{"role": "user", "content": 3}], {"role": "user"}]
)
def test_a_prompt_of_another_type_is_refused(session: Session, prompt: Any) -> None:
    with pytest.raises(UsageError, match=r"^prompt cannot"):
        session.generate(prompt)


def test_what_is_no_text_is_refused(session: Session, smollm2: Path) -> None:
    words: Any = 3
    for wrong in (
        lambda: session.generate("Hi.", system=words),
        lambda: session.chat(words),
        lambda: session.chat().say(words),
    ):
        with pytest.raises(UsageError, match="cannot be 3"):
            wrong()
    with pytest.raises(UsageError, match="progress cannot be 3"):
        load(smollm2, progress=words)


def test_the_types_that_a_program_sees(session: Session) -> None:
    """Checked by mypy; the run shows that they are true."""
    generation = session.generate([{"role": "user", "content": "Hi."}], n_predict=4, stop=("x", "y"), logit_bias={1: -1.0})
    assert_type(generation, Generation)
    for piece in generation:
        assert_type(piece, str)
    for done in session.generate("Hi.", n_predict=2).rounds():
        assert_type(done, Round)
    assert_type(generation.finish, FinishReason | None)
    assert_type(generation.tokens, tuple[int, ...])
    assert_type(generation.stats, RunStats)
    assert_type(session.stats, SessionStats)
    assert_type(session.stats.generation_tps, float | None)
    chat = session.chat(system="Be brief.", context="trim")
    assert_type(chat, Chat)
    assert_type(chat.say("Hi.", n_predict=2).read(), str)
    assert_type(chat.undo(), Turn)


def test_drafting_changes_no_text(session: Session, smollm2: Path) -> None:
    with load(smollm2, "none") as plain:
        assert plain.drafter == "none"
        expected = plain.generate(STORY, n_predict=40, temperature=0).read()
    generation = session.generate(STORY, n_predict=40, temperature=0)
    assert session.drafter == "ngram"
    assert generation.read() == expected
    assert generation.finish is FinishReason.LENGTH
    assert len(generation.tokens) == generation.stats.n_emitted == 40


def test_a_seed_draws_the_same_text_again(session: Session) -> None:
    first = session.generate(STORY, n_predict=12, temperature=1.2)
    text = first.read()
    assert session.generate(STORY, n_predict=12, temperature=1.2, seed=first.seed).read() == text


def test_a_prompt_with_the_same_beginning_is_passed_from_where_it_differs(session: Session) -> None:
    session.generate(f"{STORY} It is red.", **SHORT).read()
    again = session.generate(f"{STORY} It is blue.", **SHORT)
    again.read()
    assert again.stats.n_reused > again.stats.n_prompt


def test_messages_are_the_question_with_its_system_prompt(session: Session) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": STORY}]
    assert session.generate(messages, **SHORT).read() == session.generate(STORY, system="Be brief.", **SHORT).read()


def test_break_leaves_the_caches_usable(session: Session) -> None:
    expected = session.generate(STORY, n_predict=20, temperature=0).read()
    for _ in session.generate("Something else entirely.", n_predict=20, temperature=0):
        break
    assert session.generate(STORY, n_predict=20, temperature=0).read() == expected


def test_two_at_a_time_are_refused(session: Session) -> None:
    first = session.generate(STORY, **SHORT)
    next(first)
    for start in (lambda: session.generate("Hi."), session.chat):
        with pytest.raises(UsageError, match="under way"):
            start()
    first.close()
    assert session.generate("Hi.", **SHORT).read()


def test_a_grammar_and_a_schema_hold(session: Session) -> None:
    assert session.generate("Yes or no?", grammar='root ::= "maybe"').read() == "maybe"
    schema = {"enum": ["red", "green"]}
    assert json.loads(session.generate("A colour, as JSON:", json_schema=schema).read()) in ("red", "green")
    with pytest.raises(GrammarError):
        session.generate("Hi.", grammar="root ::= (")


def test_prompts_that_cannot_be_passed_are_refused_at_once(session: Session) -> None:
    with pytest.raises(PromptError, match="The context holds 512"):
        session.generate("word " * 600)
    with pytest.raises(UsageError, match="system goes with"):
        session.generate([{"role": "user", "content": "Hi."}], system="Be brief.")


def test_ctrl_c_stops_a_long_prompt_and_the_session_goes_on(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = session.generate(STORY, **SHORT).read()
    feed = Context.feed

    def interrupted(self: Context, tokens: Any) -> float:
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
        return feed(self, tokens)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Context, "feed", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.generate("word " * 400, **SHORT).read()
    finally:
        signal.signal(signal.SIGINT, before)
    assert session.generate(STORY, **SHORT).read() == expected


def test_an_error_in_a_pass_leaves_the_session_usable(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = session.generate(STORY, **SHORT).read()

    def broken(self: Context, tokens: Any, *, last_only: bool = False) -> None:
        raise BackendError("The pass failed.")

    with monkeypatch.context() as patch:
        patch.setattr(Context, "decode", broken)
        with pytest.raises(BackendError):
            session.generate("Hi.", **SHORT).read()
    assert session.generate(STORY, **SHORT).read() == expected


def test_a_chat_keeps_its_turns_and_only_passes_what_is_new(session: Session) -> None:
    chat = session.chat("Be brief.")
    answer = chat.say("Hello!", **SHORT)
    assert "".join(answer) == answer.text == chat.turns[0].answer
    assert chat.turns[0].seed == answer.seed
    before = session.stats.n_generations
    second = chat.say("Who are you?", **SHORT)
    second.read()
    assert second.stats.n_reused > 0
    assert session.stats.n_generations == before + 1
    assert [turn.question for turn in chat.turns] == ["Hello!", "Who are you?"]
    assert chat.undo().question == "Who are you?"
    chat.system = None
    assert (len(chat.turns), chat.system) == (1, None)


def test_an_answer_that_is_left_early_stays_as_far_as_it_came(session: Session) -> None:
    chat = session.chat()
    said = ""
    for piece in chat.say("Count to a hundred.", n_predict=40, temperature=0):
        said += piece
        break
    assert chat.turns[0].answer.startswith(said)
    assert chat.turns[0].finish is FinishReason.INTERRUPTED
    chat.undo()
    with pytest.raises(UsageError, match="no question yet"):
        chat.undo()


def test_a_chat_is_kept_in_a_file_that_the_command_reads(session: Session, tmp_path: Path) -> None:
    from specdec_cli.chat import store

    file = tmp_path / "talk.json"
    chat = session.chat("Be brief.")
    chat.say("Hello!", **SHORT).read()
    chat.save(file)
    chat.save(file)
    assert store.read(file).talk.turns == chat.turns
    other = session.chat()
    other.load(str(file))
    assert (other.turns, other.system) == (chat.turns, "Be brief.")
    assert other.say("And?", **SHORT).read()
    with pytest.raises(UsageError):
        other.load(tmp_path / "none.json")
    assert len(other.turns) == 2


def test_what_thinks_is_kept_apart(smollm2: Path, tmp_path: Path) -> None:
    template = "{% for message in messages %}{{ message.content }}{% endfor %}<think>\n"
    thinker = patched(smollm2, tmp_path / "thinker.gguf", chat_template(smollm2, template))
    with load(thinker, n_ctx=256) as session:
        answer = session.chat().say("Hm.", **SHORT)
        assert list(answer) == []
        assert answer.thinking.strip()
        assert len(answer.tokens) == 8


def test_the_models_own_sampling_decides_where_nobody_else_does(smollm2: Path, tmp_path: Path) -> None:
    greedy = copy_with_changes(smollm2, tmp_path / "greedy.gguf", {"general.sampling.temp": 0.0})
    with load(greedy, n_ctx=256) as session:
        assert session.generate(STORY, n_predict=12).read() == session.generate(STORY, n_predict=12).read()


def test_what_was_decided_is_kept_and_logged_and_nothing_is_printed(
    smollm2: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, float | None]] = []
    with caplog.at_level(logging.INFO, "specdec_cli"):
        with load(smollm2, "auto", n_ctx=16_384, progress=lambda label, fraction: seen.append((label, fraction))) as session:
            session.generate("Hi.", **SHORT).read()
        assert any("--draft auto" in notice for notice in session.notices)
        assert any("trained for" in notice for notice in session.notices)
        assert caplog.messages == list(session.notices)
    assert any(label.startswith("loading the target") for label, _ in seen)
    assert capfd.readouterr() == ("", "")


def test_what_is_closed_says_so(smollm2: Path) -> None:
    session = load(smollm2, n_ctx=256)
    generation = session.generate(STORY, n_predict=40)
    next(generation)
    session.close()
    session.close()
    assert generation.finish is FinishReason.INTERRUPTED
    with pytest.raises(UsageError, match="closed"):
        session.generate("Hi.")


def test_a_file_that_is_not_there_is_an_error_of_three_parts(tmp_path: Path) -> None:
    with pytest.raises(SpecdecError) as caught:
        Session.load(tmp_path / "none.gguf")
    error = caught.value
    assert isinstance(error, ModelFileError)
    assert error.what
    assert error.why
    assert error.fix
