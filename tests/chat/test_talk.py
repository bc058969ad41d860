"""A talk as the messages of a chat template."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.chat.talk import Document, Talk, fenced, message_text, messages
from specdec_cli.llama.template_worker import compile_template
from tests.chat.made import turn

# What Qwen3's template does with an assistant's thinking: only that of the turn under way is kept.
QWEN3 = """{%- for message in messages %}
{%- if message.role == "assistant" %}
{%- set content = message.content %}
{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}
{{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
# What MiniMax-M3's does: the thinking of all turns stays, taken from its own key.
M3 = """{%- for message in messages %}
{%- if message.role == "assistant" %}
{%- set thought = message.reasoning_content if message.reasoning_content is string else '' %}
{{- ']~b]ai\\n' + ('<mm:think>' ~ thought ~ '</mm:think>' if thought else '</mm:think>') + message.content + '[e~[\\n' }}
{%- else %}{{- ']~b]' + message.role + '\\n' + message.content + '[e~[\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- ']~b]ai\\n' }}{%- endif %}"""


def rendered(template: str, thinking: str) -> str:
    talk = messages(None, (turn("How?", "So.", thinking=thinking),), "And?")
    return compile_template(template, "", "")([dict(message) for message in talk], True, 10_000)


def test_thinking_goes_out_of_the_next_turn_where_the_template_wants_that() -> None:
    assert rendered(QWEN3, "Hmm.") == rendered(QWEN3, "")
    assert "So.<|im_end|>" in rendered(QWEN3, "Hmm.")


def test_thinking_stays_where_the_template_wants_that() -> None:
    assert "<mm:think>Hmm.</mm:think>So." in rendered(M3, "Hmm.")
    assert "\n</mm:think>So." in rendered(M3, "")


def test_messages_alternate_and_end_with_the_newest() -> None:
    found = messages("Be brief.", (turn("One?", "1"), turn("Two?", "2")), "Three?")
    assert [message["role"] for message in found] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert found[-1]["content"] == "Three?"


def test_turns_without_a_token_of_an_answer_and_dropped_ones_are_not_sent() -> None:
    talk = Talk(None, (turn("One?", "1"), turn("Two?", "", ids=()), turn("Three?", "3")), n_dropped=1)
    assert [sent.question for sent in talk.sent] == ["Three?"]


def test_documents_stand_before_the_question_under_their_names() -> None:
    text = message_text("What is wrong?", (Document("a.py", "x = 1\n"), Document("b.md", "```\ncode\n```")))
    assert text == "File: a.py\n```\nx = 1\n```\n\nFile: b.md\n````\n```\ncode\n```\n````\n\nWhat is wrong?"


@given(st.text(alphabet="`~a\n ", max_size=40))
def test_a_fence_is_longer_than_any_in_its_text(text: str) -> None:
    first, *inside, last = fenced(text).split("\n")
    assert first == last
    assert all(first not in line for line in inside)
    assert "\n".join(inside) in (text, text.removesuffix("\n"))
