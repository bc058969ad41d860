"""A talk as Markdown."""

from __future__ import annotations

from specdec_cli.chat.export import markdown
from specdec_cli.chat.talk import Document, Talk
from specdec_cli.decoding.contracts import FinishReason
from tests.chat.made import turn


def test_every_text_stands_in_it_as_it_is() -> None:
    answer = "# A heading\n\n```python\nprint('```')\n```\n\n---\n\n**Question 9**"
    document = Document("notes.md", "````\nfour\n````\n# Title")
    talk = Talk("Be *brief*.", (turn("What?\n```\nx\n```", answer, thinking="Hm.", documents=(document,)),))
    found = markdown(talk, "My\ntalk")
    assert found.startswith("# My talk\n")
    assert "```\nBe *brief*.\n```" in found
    assert "`````\n````\nfour\n````\n# Title\n`````" in found
    assert "````\nWhat?\n```\nx\n```\n````" in found
    assert f"\n\n{answer}\n" in found
    assert "**Answer 1** (`target.gguf`)" in found


def test_an_answer_that_leaves_a_fence_open_is_fenced_itself() -> None:
    cut = turn("Code?", "```python\nx = 1", finish=FinishReason.INTERRUPTED)
    found = markdown(Talk(None, (cut, turn("More?", "Yes."))))
    assert "````\n```python\nx = 1\n````\n" in found
    assert "stopped" in found
    assert found.endswith("\n\nYes.\n")
    for opening in ("<!-- never closed", "<pre>\n\ntext", "~~~\ntext"):
        assert f"```\n{opening}\n```" in markdown(Talk(None, (turn("?", opening),)))


def test_a_closed_fence_is_left_alone() -> None:
    for answer in ("~~~\n```\n~~~", "````\n```\n````", "text ```inline``` text", "``` not `a fence", "   ```\nx\n ```"):
        assert f"\n\n{answer}\n" in markdown(Talk(None, (turn("?", answer),)))
