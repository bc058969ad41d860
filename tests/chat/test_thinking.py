"""Thinking is told from answers, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.chat.thinking import TAGS, Part, Splitter, Tags, opened_by, spellings, tags_of

THINK = Tags("<think>", "</think>")
GPT_OSS = "{{ '<|start|>assistant<|channel|>analysis<|message|>' }}{{ '<|start|>assistant<|channel|>final<|message|>' }}"


def split(chunks: list[str], tags: tuple[Tags, ...] = (THINK,), opened: Tags | None = None) -> dict[Part, str]:
    splitter = Splitter(tags, opened)
    found = dict.fromkeys(Part, "")
    for chunk in chunks:
        for piece in splitter.feed(chunk):
            assert piece.text
            found[piece.part] += piece.text
    for piece in splitter.finish():
        found[piece.part] += piece.text
    return found


def parts(text: str, tags: tuple[Tags, ...] = (THINK,), opened: Tags | None = None) -> tuple[str, str]:
    found = split([text], tags, opened)
    return found[Part.THINKING], found[Part.ANSWER]


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Hello.", "", "Hello."),
        ("<think>\nWell.\n</think>\n\nHello.", "Well.", "Hello."),
        ("\n <think>a < b</think>c", "a < b", "c"),
        ("<think></think>c", "", "c"),
        ("<think>never ends", "never ends", ""),
        ("<think>cut off </thi", "cut off </thi", ""),
        ("<thin", "", "<thin"),
        ("<thinking>no tag</thinking>", "", "<thinking>no tag</thinking>"),
        ("Write <think>x</think>.", "", "Write <think>x</think>."),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("  two spaces stay", "", "  two spaces stay"),
        ("   ", "", "   "),
        ("", "", ""),
    ],
)
def test_thinking_stands_at_the_beginning_or_nowhere(text: str, thought: str, answer: str) -> None:
    assert parts(text) == (thought, answer)


def test_a_prompt_that_opens_the_thinking_is_seen() -> None:
    assert opened_by("<|im_start|>assistant\n<think>\n", (THINK,)) == THINK
    assert opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n", (THINK,)) is None
    assert opened_by("<|im_start|>assistant\n", (THINK,)) is None
    assert parts("\nWell.\n</think>\n\nHello.", opened=THINK) == ("Well.", "Hello.")


@pytest.mark.parametrize("tags", [THINK, *(tags for tags in TAGS if tags.close)], ids=lambda tags: tags.open)
def test_every_pair_of_tags_is_told_apart(tags: Tags) -> None:
    template = f"... {tags.open} ... {tags.close} ..."
    assert tags in tags_of(template)
    assert parts(f"{tags.open}a{tags.close}b", tags_of(template)) == ("a", "b")


def test_channels_are_no_part_of_an_answer() -> None:
    tags = tags_of(GPT_OSS)
    assert parts("<|channel|>final<|message|>Hello.", tags) == ("", "Hello.")
    text = "<|channel|>analysis<|message|>Greet.<|start|>assistant<|channel|>final<|message|>Hello."
    assert parts(text, tags) == ("Greet.", "Hello.")
    assert {"<|channel|>", "<|message|>", "<|start|>"} <= set(spellings(tags))


def test_tags_that_a_template_does_not_know_are_text() -> None:
    assert parts("[THINK]a[/THINK]b", tags_of("{{ messages }}")) == ("", "[THINK]a[/THINK]b")


_BITS = st.sampled_from(["<think>", "</think>", "<", "</th", "think>", " ", "\n", "a", "ü", "<|channel|>final<|message|>", ">"])


@given(st.lists(_BITS, max_size=12).map("".join), st.data(), st.booleans())
def test_the_same_however_the_text_is_cut(text: str, data: st.DataObject, opened: bool) -> None:
    tags, first = tags_of(GPT_OSS), THINK if opened else None
    whole = split([text], tags, first)
    assert split(list(text), tags, first) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(chunks, tags, first) == whole


@given(st.text(alphabet="<>think/ \nab", max_size=40))
def test_an_answer_without_a_tag_at_its_beginning_is_left_as_it_is(text: str) -> None:
    if not text.lstrip().startswith("<think>"):
        assert parts(text) == ("", text)
