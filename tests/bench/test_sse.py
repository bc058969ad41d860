"""Server-sent events are the same whatever the pieces of the stream."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.bench.sse import EventParser


def parsed(pieces: Sequence[bytes]) -> list[str]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[bytes], list[str]]:
    """A stream in pieces, and the data of its events."""
    line = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8)
    events = draw(st.lists(st.lists(line, min_size=1, max_size=3), max_size=4))
    stream = ""
    for event in events:
        for data in event:
            stream += draw(st.sampled_from(["", ": ping{}", "id: 7{}", "event: x{}"])).format(draw(_ENDS))
            stream += f"data: {data}{draw(_ENDS)}"
        stream += draw(_ENDS)
    raw = stream.encode("utf-8")
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    return pieces, ["\n".join(event) for event in events]


_ENDS = st.sampled_from(["\n", "\r\n"])


@given(cut_streams())
def test_events_do_not_depend_on_where_the_stream_is_cut(case: tuple[list[bytes], list[str]]) -> None:
    pieces, events = case
    assert parsed(pieces) == events
    assert parsed([bytes([byte]) for piece in pieces for byte in piece]) == events


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_one(end: str) -> None:
    raw = f"data: a{end}data: b{end}{end}data: ☂{end}{end}".encode()
    assert parsed([raw]) == ["a\nb", "☂"]
    assert parsed([bytes([byte]) for byte in raw]) == ["a\nb", "☂"]


def test_a_byte_order_mark_comments_and_other_fields_are_passed_over() -> None:
    assert parsed([b"\xef\xbb\xbf: hello\n\nevent: x\ndata: 1\nretry: 5\n\n:\n\ndata:2\n\n"]) == ["1", "2"]


def test_an_event_without_its_end_is_none() -> None:
    assert parsed([b"data: 1\n\ndata: 2\n"]) == ["1"]


def test_separators_inside_json_do_not_end_a_line() -> None:
    assert parsed(['data: "a\u2028b\x85c"\n\n'.encode()]) == ['"a\u2028b\x85c"']


def test_a_fault_in_a_field_of_its_own_is_an_event() -> None:
    assert parsed([b'error: {"message":"no"}\n\n']) == ['{"error": {"message":"no"}}']
