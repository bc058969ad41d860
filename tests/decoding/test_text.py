"""Shown text does not depend on how its bytes were cut, and holds back no more than it must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdec_cli.decoding.text import TextStream

# Few characters, so that stop strings occur, overlap and nearly occur; one to four bytes each.
texts = st.text(alphabet="ab<|é€𝄞", max_size=30)
some_stops = st.lists(st.text(alphabet="ab<|é𝄞", min_size=1, max_size=4), max_size=3)


@st.composite
def texts_with_stops(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and stop strings of which some are parts of it."""
    text, stops = draw(texts), draw(some_stops)
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        stops.append(text[start : start + draw(st.integers(1, 6))])
    return text, [stop for stop in stops if stop]


odd_bytes = st.one_of(
    st.binary(max_size=24),
    st.lists(
        st.sampled_from([b"a", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xf0\x9d", b"\xff", b"\xed\xa0\x80"]), max_size=16
    ).map(b"".join),
)


def shown(chunks: Iterable[bytes], stops: Sequence[str]) -> tuple[str, str | None]:
    """The whole shown text, and the stop string that ended it."""
    stream = TextStream(stops)
    text = "".join([stream.push(chunk) for chunk in chunks])
    return text + stream.finish(), stream.stopped_by


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def up_to_stop(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The text before the stop string that is complete first; of two complete at the same place, before the longer."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@settings(derandomize=True, deadline=None)
@given(texts_with_stops(), st.lists(st.integers(0, 120), max_size=10))
@example(("aab", ["ab"]), [])
@example(("abab<", ["bab", "ab"]), [])
@example(("ab", ["b", "ab"]), [])
@example(("a|<b", ["a|<b", "|"]), [])
@example(("é€𝄞", ["€𝄞"]), [])
def test_however_the_bytes_are_cut_the_text_before_the_first_stop_string_is_shown(
    case: tuple[str, list[str]], places: list[int]
) -> None:
    text, stops = case
    data = text.encode()
    expected = up_to_stop(text, stops)
    for chunks in (cut(data, 1), cut(data, 2), cut(data, 3), [data], cut_at(data, places)):
        assert shown(chunks, stops) == expected


@settings(derandomize=True, deadline=None)
@given(odd_bytes, some_stops, st.lists(st.integers(0, 120), max_size=10))
def test_bytes_that_are_no_text_are_shown_alike_however_they_are_cut(data: bytes, stops: list[str], places: list[int]) -> None:
    expected = shown([data], stops)
    for chunks in (cut(data, 1), cut(data, 2), cut(data, 3), cut_at(data, places)):
        assert shown(chunks, stops) == expected
    if not stops:
        assert data.decode("utf-8", "replace").startswith(expected[0])


@settings(derandomize=True, deadline=None)
@given(texts_with_stops())
def test_what_is_held_back_is_the_longest_possible_beginning_of_a_stop_string(case: tuple[str, list[str]]) -> None:
    text, stops = case
    stream, seen = TextStream(stops), ""
    for i, character in enumerate(text):
        seen += stream.push(character.encode())
        if stream.stopped_by is not None:
            break
        held = text[len(seen) : i + 1]
        starts = [text[j : i + 1] for j in range(i + 1) if any(stop.startswith(text[j : i + 1]) for stop in stops)]
        assert seen + held == text[: i + 1]
        assert held == (starts[0] if starts else "")


@pytest.mark.parametrize("character", ["é", "€", "𝄞"])
def test_a_character_is_shown_when_its_last_byte_came(character: str) -> None:
    stream = TextStream()
    *first, last = cut(character.encode(), 1)
    assert [stream.push(byte) for byte in first] == [""] * len(first)
    assert stream.push(last) == character


def test_an_incomplete_character_at_the_end_is_dropped() -> None:
    assert shown([b"a", "€".encode()[:2]], ()) == ("a", None)


def test_a_broken_character_is_replaced_and_what_follows_is_kept() -> None:
    assert shown([b"a\xe2\x82", b"b"], ()) == ("a\ufffdb", None)
    assert shown([b"\xff", b"ab"], ["b"]) == ("\ufffda", "b")


def test_a_stop_string_at_the_very_end_is_not_shown() -> None:
    assert shown([b"text<", b"|end|>"], ["<|end|>"]) == ("text", "<|end|>")


def test_a_beginning_of_a_stop_string_that_is_real_text_is_shown() -> None:
    stream = TextStream(["<|end|>"])
    assert stream.push(b"a <|e") == "a "
    assert stream.push(b"lse") == "<|else"
    assert stream.push(b" <|end") == " "
    assert stream.finish() == "<|end"


def test_nothing_is_shown_after_a_stop_string() -> None:
    stream = TextStream(["b"])
    assert stream.push(b"abc") == "a"
    assert stream.push(b"more") == ""
    assert stream.finish() == ""


def test_an_empty_stop_string_stops_nothing() -> None:
    assert shown([b"ab"], ["", "x"]) == ("ab", None)
