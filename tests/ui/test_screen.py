"""The screen: text that streams over a footer, looked at on an emulated terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.ui.output import OutputClosed
from specdec_cli.ui.screen import Screen, advance
from tests.ui.terminal import Terminal, raising, stream

FOOTER = "12.3 tokens/s | accepted 10/20"
CHUNKS = st.lists(st.text(st.sampled_from("ab c日本😀é\n\t"), max_size=12), max_size=25)
SIZES = st.tuples(st.integers(4, 45), st.integers(3, 9))


def on(terminal: Terminal, *, dim: bool = False) -> Screen:
    return Screen(terminal.stream(), terminal.stream(), dim=dim, size=lambda: terminal.size)


def wrapped(text: str, terminal: Terminal) -> list[str]:
    """The rows of a terminal of the same size that is shown the text and nothing else."""
    bare = Terminal(*terminal.size)
    bare.feed(text)
    return bare.rows()


def test_the_footer_stands_under_the_text_and_the_cursor_after_it() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.text("one two")
    screen.footer(FOOTER)
    assert terminal.rows() == ["one two", FOOTER]
    assert terminal.cursor == (0, 7)


def test_the_footer_takes_the_row_of_text_that_has_not_begun() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.footer("loading\n\t10%")
    assert terminal.rows() == ["loading 10%"]
    screen.footer("loading")
    assert terminal.rows() == ["loading"]
    screen.text("x")
    assert terminal.rows() == ["x", "loading"]


def test_a_footer_of_nothing_takes_the_footer_away() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.footer(FOOTER)
    screen.footer("")
    assert terminal.rows() == []


def test_the_footer_moves_down_with_the_text_and_past_the_last_row() -> None:
    terminal = Terminal(40, 4)
    screen = on(terminal)
    for i in range(9):
        screen.text(f"line {i}\nnext")
        screen.footer(FOOTER)
        assert terminal.rows()[-2:] == ["next", FOOTER]
        screen.text("\n")
    screen.end(complete=True)
    assert terminal.rows() == [line for i in range(9) for line in (f"line {i}", "next")]


def test_a_footer_wider_than_the_terminal_is_cut_to_one_row() -> None:
    terminal = Terminal(12, 5)
    screen = on(terminal)
    screen.text("ab")
    screen.footer(FOOTER)
    assert terminal.rows() == ["ab", FOOTER[:11].rstrip()]


@given(CHUNKS, SIZES, st.booleans())
def test_any_text_ends_up_as_without_a_footer(chunks: list[str], size: tuple[int, int], dim: bool) -> None:
    terminal = Terminal(*size)
    screen = on(terminal, dim=dim)
    for chunk in chunks:
        screen.text(chunk)
        screen.footer(FOOTER)
    screen.end(complete=True)
    assert terminal.rows() == wrapped("".join(chunks), terminal)


@given(CHUNKS, SIZES)
def test_the_text_over_the_footer_is_whole_at_every_moment(chunks: list[str], size: tuple[int, int]) -> None:
    terminal = Terminal(*size)
    screen, so_far = on(terminal), ""
    for chunk in chunks:
        screen.text(chunk)
        screen.footer("#")
        so_far += chunk
        expected = wrapped(so_far, terminal)
        assert terminal.rows()[: len(expected)] == expected
        assert [row for row in terminal.rows()[len(expected) :] if row] in ([], ["#"])


@given(st.lists(st.tuples(st.text(st.sampled_from("ab 日😀\n"), max_size=20), st.none() | SIZES), max_size=15), SIZES)
def test_resizes_leave_the_text_whole(steps: list[tuple[str, tuple[int, int] | None]], size: tuple[int, int]) -> None:
    terminal, bare = Terminal(*size), Terminal(*size)
    screen, plain = on(terminal), on(bare)
    for chunk, new_size in steps:
        screen.text(chunk)
        plain.text(chunk)
        screen.footer(FOOTER)
        if new_size is not None:
            terminal.resize(*new_size)
            bare.resize(*new_size)
    screen.end(complete=True)
    plain.end(complete=True)
    assert terminal.lines() == bare.lines()


@pytest.mark.parametrize("after", ["x", "\n", "日", "x\ny", "\u0301x", ""])
@pytest.mark.parametrize(("before", "columns"), [("0123456", 7), ("日日日a", 7), ("0123456789ab", 6), ("0123456789", 10)])
def test_a_resize_that_puts_the_end_of_the_text_in_the_last_column_costs_nothing(before: str, columns: int, after: str) -> None:
    terminal, bare = Terminal(8, 6), Terminal(8, 6)
    screen, plain = on(terminal), on(bare)
    for each, shown in ((screen, terminal), (plain, bare)):
        each.text(before)
        if each is screen:
            each.footer(FOOTER)
        shown.resize(columns, 6)
        each.text(after)
        each.end(complete=True)
    assert terminal.rows() == bare.rows()


@pytest.mark.parametrize("columns", [9, 10, 11, 20, 29, 30, 31, 60])
@pytest.mark.parametrize("words", [("a text of words", " and", " more\nthan one", " line"), ("0123456789", "x", "\n", "y")])
def test_resizes_of_a_terminal_that_does_not_rewrap_do_no_more_than_they_do_anyway(
    columns: int, words: tuple[str, ...]
) -> None:
    terminal, bare = Terminal(30, 40, rewraps=False), Terminal(30, 40, rewraps=False)
    screen, plain = on(terminal), on(bare)
    for i, word in enumerate(words):
        screen.text(word)
        plain.text(word)
        screen.footer(FOOTER)
        if i == 1:
            terminal.resize(columns, 40)
            bare.resize(columns, 40)
    screen.end(complete=True)
    plain.end(complete=True)
    assert terminal.rows() == bare.rows()


def test_a_footer_that_a_narrower_terminal_wraps_is_erased_whole() -> None:
    terminal = Terminal(40, 10)
    screen = on(terminal)
    screen.text("text")
    screen.footer(FOOTER)
    terminal.resize(10, 10)
    assert len(terminal.rows()) > 2
    screen.text(" more")
    assert terminal.rows() == ["text more", FOOTER[:9]]


def test_a_footer_that_a_lower_terminal_cuts_off_costs_no_text() -> None:
    terminal = Terminal(40, 6)
    screen = on(terminal)
    screen.text("1\n2\n3\n4\n5")
    screen.footer(FOOTER)
    terminal.resize(40, 4)
    screen.text(" more")
    screen.end(complete=True)
    assert terminal.rows() == ["1", "2", "3", "4", "5 more"]


def test_no_footer_while_a_wrap_is_pending() -> None:
    terminal = Terminal(10, 5)
    screen = on(terminal)
    screen.text("0123456789")
    screen.footer("foot")
    assert terminal.rows() == ["0123456789"]
    screen.text("x")
    assert terminal.rows() == ["0123456789", "x", "foot"]


def test_characters_that_the_terminal_finds_narrower_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyte.screens.wcwidth", lambda char: 1)
    terminal = Terminal(30, 5)
    screen = on(terminal)
    for word in ("日本", " 😀😀 ", "abc\n", "日本語", " end"):
        screen.text(word)
        screen.footer("foot")
    screen.end(complete=True)
    assert terminal.rows() == ["日本 😀😀 abc", "日本語 end"]


def test_text_that_steers_the_terminal_ends_the_footer() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.text("ab")
    screen.footer("foot")
    screen.text("\x1b[Hcd")
    screen.footer("foot")
    assert terminal.rows() == ["cd"]


def test_coloured_text_keeps_the_footer() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.text("\x1b[32mab\x1b[0m")
    screen.footer("foot")
    assert terminal.rows() == ["ab", "foot"]
    assert terminal.cursor == (0, 2)


def test_a_carriage_return_keeps_what_it_goes_back_over() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.text("abc\r")
    screen.footer("foot")
    assert terminal.rows() == ["abc"]
    screen.text("X")
    assert terminal.rows() == ["Xbc"]
    screen.text("\r\n")
    assert terminal.rows() == ["Xbc", "foot"]


def test_a_notice_waits_until_it_stands_in_no_line_of_the_text() -> None:
    terminal = Terminal()
    screen = on(terminal)
    screen.line("first")
    screen.text("half a")
    screen.footer("foot")
    screen.line("second")
    assert terminal.rows() == ["first", "half a", "foot"]
    screen.text(" line\n")
    assert terminal.rows() == ["first", "half a line", "second", "foot"]
    screen.text("rest")
    screen.line("third")
    screen.end(complete=True)
    assert terminal.rows() == ["first", "half a line", "second", "rest", "third"]


def test_the_footer_on_a_terminal_leaves_text_in_a_file_alone() -> None:
    terminal, written = Terminal(), io.StringIO()
    screen = Screen(written, terminal.stream(), size=lambda: terminal.size)
    for word in ("some ", "text\n", "more"):
        screen.text(word)
        screen.footer(FOOTER)
        assert terminal.rows() == [FOOTER]
    screen.line("a notice")
    assert terminal.rows() == ["a notice", FOOTER]
    screen.end(complete=True)
    assert terminal.rows() == ["a notice"]
    assert written.getvalue() == "some text\nmore\n"


def test_the_footer_goes_when_text_begins_to_flow_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.ui.screen.is_file", lambda stream: False)
    terminal = Terminal()
    screen = Screen(stream(lambda data: None), terminal.stream(), size=lambda: terminal.size)
    screen.footer("loading")
    assert terminal.rows() == ["loading"]
    screen.text("text")
    screen.footer(FOOTER)
    assert terminal.rows() == []
    screen.end(complete=True)
    screen.footer("the next run")
    assert terminal.rows() == ["the next run"]


def test_no_footer_in_a_terminal_too_low_for_it() -> None:
    terminal = Terminal(20, 2)
    screen = on(terminal)
    screen.text("a\nb\nc")
    screen.footer("foot")
    assert terminal.rows() == ["a", "b", "c"]


def test_a_closed_pipe_takes_the_footer_away_and_says_so() -> None:
    terminal = Terminal()
    screen = Screen(raising(BrokenPipeError()), terminal.stream(), size=lambda: terminal.size)
    screen.footer(FOOTER)
    with pytest.raises(OutputClosed):
        screen.text("text")
    screen.end(complete=False)
    assert terminal.rows() == []


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 0),
        ("abc", 3),
        ("0123456789", 10),
        ("0123456789x", 1),
        ("日本語中文", 10),
        ("0日本語中文", 2),
        ("a\tb", 9),
        ("ab\n", 0),
    ],
)
def test_columns_are_counted_as_a_terminal_does(text: str, column: int) -> None:
    assert advance(0, text, 10) == column
