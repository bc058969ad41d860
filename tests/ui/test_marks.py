"""Marks of drafted tokens in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, PromptPass, Round
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.text import TextStream
from specdec_cli.ui.marks import legend, marked
from tests.ui.runs import a_round

PIECES = {
    1: b" quick",
    2: b" brown",
    3: b" fox",
    4: b"\n",
    5: "日".encode()[:1],
    6: "日".encode()[1:],
    7: b"\x1b[2J",
    8: b"<end>",
}


def shown(events: Iterable[Event], *, colour: bool = False) -> list[str]:
    return [event.text for event in marked(events, PIECES.__getitem__, colour=colour) if not isinstance(event, PromptPass)]


def test_each_origin_has_its_sign() -> None:
    events: list[Event] = [
        PromptPass(1, 1, 0, 0.1),
        a_round(0, " quick", emitted=(1,)),
        a_round(1, " quick brown fox", drafted=(1, 2, 9), n_accepted=2, emitted=(1, 2, 3), kind=Kind.RECOVERED),
        a_round(2, " fox quick", drafted=(3,), n_accepted=1, emitted=(3, 1), kind=Kind.BONUS),
        a_round(3, "\n", drafted=(1,), n_accepted=0, emitted=(4,), kind=Kind.RECOVERED),
        Ended(FinishReason.LENGTH, ""),
    ]
    assert shown(events) == [" quick", "[+ quick| brown][~ fox]", "[+ fox][* quick]", "[~\n]", ""]


def test_colour_only_repeats_the_signs() -> None:
    done = a_round(0, " quick brown fox", drafted=(1, 2, 9), n_accepted=2, emitted=(1, 2, 3), kind=Kind.RECOVERED)
    (coloured,) = shown([done], colour=True)
    assert coloured == "\x1b[32m[+ quick| brown]\x1b[0m\x1b[31m[~ fox]\x1b[0m"
    assert [re.sub(r"\x1b\[\d*m", "", coloured)] == shown([done])


def test_a_character_of_two_tokens_belongs_to_the_one_that_completes_it() -> None:
    events: list[Event] = [
        a_round(0, "日", drafted=(5, 6, 9), n_accepted=2, emitted=(5, 6), kind=Kind.RECOVERED),
        a_round(1, "", drafted=(5,), n_accepted=1, emitted=(5,)),
        a_round(2, "日 fox", drafted=(9,), n_accepted=0, emitted=(6, 3), kind=Kind.RECOVERED),
    ]
    assert shown(events) == ["[+日]", "", "[~日| fox]"]


def test_text_that_is_held_back_is_marked_when_it_is_shown() -> None:
    events: list[Event] = [
        a_round(0, " qui", drafted=(1,), n_accepted=1, emitted=(1, 2)),
        a_round(1, "ck brown", emitted=(3,)),
        Ended(FinishReason.LENGTH, " fox"),
    ]
    assert shown(events) == ["", "[+ quick][* brown]", " fox"]


def test_a_stop_string_cuts_a_token_where_it_cuts_the_text() -> None:
    events: list[Event] = [
        a_round(0, " quick br", drafted=(1, 2), n_accepted=2, emitted=(1, 2)),
        Ended(FinishReason.STOP, ""),
    ]
    assert shown(events) == ["[+ quick]", "[+ br]"]


def test_an_end_token_is_not_shown() -> None:
    events: list[Event] = [a_round(0, " fox", drafted=(3, 8), n_accepted=2, emitted=(3, 8)), Ended(FinishReason.END, "")]
    assert shown(events) == ["[+ fox]", ""]


def test_control_characters_inside_marks_are_spelled_out() -> None:
    assert shown([a_round(0, "\x1b[2J", drafted=(7,), n_accepted=1, emitted=(7,))]) == ["[+\\x1b[2J]"]


@given(st.lists(st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 4)), max_size=8), st.booleans())
def test_without_its_marks_the_text_is_the_text(rounds: list[tuple[list[int], int]], with_stops: bool) -> None:
    text = TextStream(("fox\n", "brown q") if with_stops else ())
    events: list[Round | Ended] = []
    for i, (tokens, n_accepted) in enumerate(rounds):
        done = a_round(i, "", drafted=(1,) * n_accepted, n_accepted=n_accepted, emitted=tuple(tokens))
        events.append(replace(done, text="".join(text.push(PIECES[token]) for token in tokens)))
    events.append(Ended(FinishReason.LENGTH, text.finish()))
    bare = re.sub(r"\[[+~*]|\]|\|", "", "".join(shown(events)))
    assert bare == "".join(event.text for event in events)


def test_the_legend_names_every_sign() -> None:
    assert all(sign in legend() for sign in ("[+ ]", "[~ ]", "[* ]"))
    assert "\n" not in legend()
