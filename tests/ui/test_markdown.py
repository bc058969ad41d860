"""Markdown that streams ends as what rendering the whole text at once gives, wherever it was cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdec_cli.ui.markdown import MarkdownOut, MarkdownStream, rendered
from specdec_cli.ui.output import TextOut
from tests.ui.terminal import Terminal

TEXT = """# Sorting

A list may be *sorted* in place:

```python
def f(xs):

    return sorted(xs)
```

1. first
2. second

   still second
- other

| a | b |
|---|---|
| 1 | two |

> quoted
lazily

Title
=====
last `code`, **bold** and [a link](http://x.y)"""

BITS = st.sampled_from(
    ["#", "# ", "- ", "1. ", "> ", "```", "`", "*", "**", "_", "\n", "\n", "\n\n", "    ", "a", "b c", "|", "|-|-|\n", "---",
     "===", "[a]: x", "[a]", "<p>", "~~", "\\", "&amp;", "\r\n", "\t", "!"]
)  # fmt: skip


def streamed(pieces: list[str], columns: int = 40) -> list[str]:
    stream = MarkdownStream(colour=False)
    lines: list[str] = []
    for piece in pieces:
        stream.push(piece)
        lines += stream.settled(columns)
    return lines + stream.unsettled(columns)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_a_text_in_pieces_of_any_length_renders_as_the_whole(n: int) -> None:
    whole = rendered(TEXT, colour=False, columns=40)
    assert streamed([TEXT[i : i + n] for i in range(0, len(TEXT), n)]) == whole
    assert any("def f(xs):" in line for line in whole)
    assert not any("```" in line for line in whole)


@settings(max_examples=300, deadline=None)
@given(st.lists(BITS, max_size=25))
@example(["p\n", "#", "x\n"])
@example(["[a]\n\n", "[a]: x\n\n", "b"])
@example(["- a\n\n", "    ", "b\n", "- a"])
def test_any_markdown_renders_as_the_whole(pieces: list[str]) -> None:
    assert streamed(pieces) == rendered("".join(pieces), colour=False, columns=40)


@pytest.mark.parametrize(("columns", "lines"), [(40, 6), (20, 30)])
def test_a_terminal_ends_with_the_rendered_text_also_where_it_is_higher_than_the_screen(columns: int, lines: int) -> None:
    terminal = Terminal(columns, lines)
    stream = terminal.stream()
    ticks = iter(range(10**6))
    out = MarkdownOut(TextOut(stream), stream, {"NO_COLOR": "1"}, lambda: (columns, lines), lambda: float(next(ticks)))
    for char in TEXT:
        out.push(char)
    out.finish()
    assert terminal.rows() == [line.rstrip() for line in rendered(TEXT, colour=False, columns=columns)]


def test_control_characters_are_spelled_out() -> None:
    assert rendered("a\x1b[2Jb", colour=False, columns=40) == ["a\\x1b[2Jb"]
