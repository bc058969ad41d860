"""Talks that are longer than the context."""

from __future__ import annotations

import pytest

from specdec_cli.chat.room import ContextPolicy, Fitted, fit
from specdec_cli.chat.talk import Message, Talk
from specdec_cli.errors import PromptError
from specdec_cli.prompts import Prompt
from tests.chat.made import turn


def encode(messages: list[Message]) -> Prompt:
    """A token for each character."""
    text = "".join(message["content"] for message in messages)
    return Prompt(tuple(map(ord, text)), text)


def fitted(n_ctx: int, policy: ContextPolicy, newest: str = "?" * 5, n_dropped: int = 0, n_predict: int = -1) -> Fitted:
    turns = tuple(turn(char * 5, char.upper() * 5) for char in "abcde")
    return fit(encode, Talk("sys", turns, n_dropped), newest, n_ctx, policy, n_predict)


def test_a_talk_that_fits_is_left_whole() -> None:
    for policy in ContextPolicy:
        found = fitted(100, policy)
        assert found == Fitted(found.ids, "sysaaaaaAAAAAbbbbbBBBBBcccccCCCCCdddddDDDDDeeeeeEEEEE?????", 0)


def test_full_refuses_with_the_numbers() -> None:
    with pytest.raises(PromptError) as caught:
        fitted(58, ContextPolicy.FULL)
    assert "58 tokens" in caught.value.what
    assert "58" in caught.value.why
    assert "/undo" in caught.value.fix
    assert "/context trim" in caught.value.fix
    assert len(fitted(59, ContextPolicy.FULL).ids) == 58


def test_trim_drops_the_oldest_whole_turns_and_leaves_room() -> None:
    found = fitted(59, ContextPolicy.TRIM)
    assert found.text == "syscccccCCCCCdddddDDDDDeeeeeEEEEE?????"
    assert (found.n_dropped, found.n_dropped_turns, found.n_dropped_tokens) == (2, 2, 20)


def test_what_was_dropped_stays_dropped() -> None:
    found = fitted(60, ContextPolicy.TRIM, n_dropped=3)
    assert found.text == "sysdddddDDDDDeeeeeEEEEE?????"
    assert (found.n_dropped, found.n_dropped_turns) == (3, 0)


def test_a_short_answer_needs_less_room() -> None:
    assert fitted(59, ContextPolicy.TRIM, n_predict=1).n_dropped == 0
    assert fitted(58, ContextPolicy.TRIM, n_predict=1).n_dropped == 2


def test_the_system_prompt_and_the_newest_question_are_never_dropped() -> None:
    found = fitted(24, ContextPolicy.TRIM, newest="?" * 20)
    assert found.text == "sys" + "?" * 20
    assert found.n_dropped == 5
    for policy in ContextPolicy:
        with pytest.raises(PromptError) as caught:
            fit(encode, Talk("sys"), "?" * 21, 24, policy, -1)
        assert "24 tokens" in caught.value.what
        assert "/undo" not in caught.value.fix
    with pytest.raises(PromptError, match="question does not fit"):
        fitted(24, ContextPolicy.TRIM, newest="?" * 21)
