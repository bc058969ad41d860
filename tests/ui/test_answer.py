"""How a talk is shown: the same bytes everywhere, thinking set apart, markdown, a line under each answer, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from specdec_cli.chat.conversation import ChatEvent, Count, Finished, Sending, Spoken, TurnReport
from specdec_cli.chat.talk import Turn
from specdec_cli.chat.thinking import Part, Piece
from specdec_cli.decoding.contracts import Ended, FinishReason, PromptPass
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import PromptError
from specdec_cli.ui.answer import JsonStage, Look, Stage, TextStage
from tests.ui.runs import a_round
from tests.ui.terminal import Terminal, stream

ENV = {"TERM": "xterm"}


def report(finish: FinishReason = FinishReason.END, answer: str = "x") -> TurnReport:
    stats = RunStats(started_s=0.0)
    for event in (a_round(0, "a", emitted=(1,)), a_round(1, "b", emitted=(2, 3))):
        stats.add(event)
    stats.add(Ended(finish, ""))
    return TurnReport(Turn("q", (), answer, "", (1, 2, 3), finish), stats, 40, 30, 10, 0, 0, 0, 0.1, 1.25, 43, 64)


def turn(pieces: Sequence[tuple[Part, str]], finish: FinishReason = FinishReason.END) -> list[ChatEvent]:
    spoken = [Spoken((Piece(part, text),), a_round(i, text, emitted=(i, i + 1))) for i, (part, text) in enumerate(pieces)]
    return [Sending(Count(40, 30, 10, 0.1), 0, 0), PromptPass(39, 39, 30, 0.1), *spoken, Finished(report(finish))]


THINKING, ANSWER = Part.THINKING, Part.ANSWER
THOUGHT = ((THINKING, "hm"), (THINKING, "\nso"), (ANSWER, "4"), (ANSWER, "2\n"))


def shown(events: Sequence[ChatEvent], look: Look, *, tty: bool = False) -> tuple[str, str]:
    out, err = bytearray(), bytearray()
    stage = TextStage(look, stream(out.extend, tty=tty), stream(err.extend), ENV)
    for event in events:
        stage.event(event)
    return out.decode(), err.decode()


def test_an_answer_goes_to_standard_output_and_its_line_to_standard_error() -> None:
    out, err = shown(turn([(ANSWER, "Four"), (ANSWER, "teen")]), Look())
    assert out == "Fourteen\n"
    assert err.count("\n") == 1
    for part in ("3 tokens", "1.2x plain", "43 of 64 context", "10 new prompt tokens (30 reused)"):
        assert part in err
    assert "\x1b" not in err
    assert shown(turn([(ANSWER, "Four"), (ANSWER, "teen")]), Look(quiet=True)) == ("Fourteen\n", "")


def test_thinking_stands_between_tags_of_its_own_and_differs_on_a_terminal_in_its_style_alone() -> None:
    piped, _ = shown(turn(THOUGHT), Look())
    assert piped == "<think>\nhm\nso\n</think>\n\n42\n"
    styled, _ = shown(turn(THOUGHT), Look(), tty=True)
    assert styled != piped
    assert styled.replace("\x1b[2m", "").replace("\x1b[0m", "") == piped


def test_hidden_thinking_is_told_by_its_length() -> None:
    out, err = shown(turn(THOUGHT), Look(hide_thinking=True))
    assert out == "42\n"
    assert "4 tokens of thinking, hidden" in err


def test_a_thought_that_is_stopped_is_closed() -> None:
    out, err = shown(turn([(THINKING, "hm")], FinishReason.INTERRUPTED), Look())
    assert out == "<think>\nhm\n</think>\n"
    assert "stopped" in err


def test_markdown_is_rendered_on_a_terminal_alone() -> None:
    events = turn([(ANSWER, "**b"), (ANSWER, "old**\n\n1. x")])
    assert shown(events, Look(markdown=True))[0] == "**bold**\n\n1. x\n"
    terminal = Terminal(80, 10)
    both = terminal.stream()
    stage = TextStage(Look(markdown=True), both, both, ENV)
    for event in [*events, *turn([(ANSWER, "again")])]:
        stage.event(event)
    rows = terminal.rows()
    assert rows[:3] == ["bold", "", " 1 x"]
    assert "again" in rows
    assert terminal.cells.cursor.x == 0


def test_a_terminal_shows_how_a_prompt_passes_and_keeps_nothing_of_it() -> None:
    terminal = Terminal(80, 10)
    both = terminal.stream()
    stage = TextStage(Look(), both, both, ENV)
    for event in turn([(ANSWER, "x")])[:2]:
        stage.event(event)
    assert any("9 of 9 tokens" in row for row in terminal.rows())
    for event in turn([(ANSWER, "x")])[2:]:
        stage.event(event)
    assert terminal.rows()[0] == "x"
    assert not any("of 9 tokens" in row for row in terminal.rows())


def test_what_is_dropped_for_lack_of_room_and_a_long_prompt_are_told() -> None:
    _, err = shown([Sending(Count(900, 0, 900, 30.0), 2, 350)], Look())
    assert "900 tokens to pass, about 30 s" in err
    assert "2 oldest turns were dropped (350 tokens)" in err


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_says_what_why_and_how_to_fix_it(as_json: bool) -> None:
    out, err = bytearray(), bytearray()
    streams = stream(out.extend), stream(err.extend)
    stage: Stage = JsonStage(Look(), *streams) if as_json else TextStage(Look(), *streams, ENV)
    stage.error(PromptError("What.", "Why\x1b.", "Fix."), of_turn=True)
    assert err.decode() == "error: What.\n  Why\\x1b.\n  Fix.\n"
    if as_json:
        assert json.loads(out) == {"error": {"what": "What.", "why": "Why\x1b.", "fix": "Fix."}, "notices": []}
    else:
        assert not out


def test_a_turn_is_one_line_of_json_with_the_notices_since_the_last() -> None:
    out, err = bytearray(), bytearray()
    stage = JsonStage(Look(), stream(out.extend), stream(err.extend))
    stage.notice("So it is.")
    for event in (*turn(THOUGHT), *turn([(ANSWER, "y")])):
        stage.event(event)
    first, second = (json.loads(line) for line in out.decode().splitlines())
    found: dict[str, Any] = first
    assert (found["text"], found["finish"], found["notices"]) == ("x", "end", ["So it is."])
    assert found["prompt"]["reused"] == 30
    assert found["context"] == {"used": 43, "size": 64}
    assert second["notices"] == []
    assert err.decode() == "note: So it is.\n"
