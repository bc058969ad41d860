"""Chat templates: idioms of real ones, and what a hostile one tries."""

from __future__ import annotations

import gc
import subprocess
import time

import pytest

from specdec_cli.errors import PromptError
from specdec_cli.llama import template as template_module
from specdec_cli.llama.template import ChatTemplate, Rendered, without_written_bos

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Ada."},
    {"role": "user", "content": "When?"},
]

CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def render(source: str, talk: list[dict[str, str]] | None = None) -> Rendered:
    template = ChatTemplate(source, "<s>", "</s>")
    try:
        return template.render(TALK if talk is None else talk)
    finally:
        template.close()


def fault(source: str) -> PromptError:
    with pytest.raises(PromptError) as caught:
        render(source)
    assert caught.value.fix
    return caught.value


def test_a_talk_and_the_prompt_for_the_next_answer() -> None:
    assert render(CHATML) == Rendered(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
        "<|im_start|>assistant\nAda.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_one_template_renders_turn_after_turn_with_and_without_generation_prompt() -> None:
    template = ChatTemplate(CHATML, "", "")
    for n in (2, 3, 4):
        assert template.render(TALK[:n]).text.count("<|im_end|>") == n
    assert template.render(TALK[:2], add_generation_prompt=False).text.endswith("Who?<|im_end|>\n")
    template.close()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ messages[-1].content }}{{ eos_token }}", "<s>When?</s>"),
        ("{% if tools %}tools{% elif tools is defined %}none{% else %}{{ messages[1].content }}{% endif %}", "Who?"),
        ("{% if not tools is defined %}{% set tools = none %}{% endif %}{% if tools is none %}no{% endif %}", "no"),
        ("{% for tool in tools %}{{ tool }}{% endfor %}no tools", "no tools"),
        ("{{ 'on' if enable_thinking is not defined or enable_thinking else 'off' }}", "on"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "4"),
        ("{% generation %}{{ messages[2].content }}{% endgeneration %}", "Ada."),
        ('{{ {"b": "é<", "a": [1]} | tojson }}', '{"b": "é<", "a": [1]}'),
        ('{{ {"a": 1} | tojson(indent=2) }}', '{\n  "a": 1\n}'),
        ("{% for key, value in messages[0].items() %}{{ key }}={{ value }};{% endfor %}", "role=system;content=Be brief.;"),
        ("{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{% macro say(m) %}[{{ m.content }}]{% endmacro %}{% for m in messages[1:2] %}{{ say(m) }}{% endfor %}", "[Who?]"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ messages | map(attribute='role') | join(',') }}", "system,user,assistant,user"),
        ("{{ messages[3].content.split('e')[0].strip() }}", "Wh"),
        ("{% if true %}\n  x\n{% endif %}\n", "  x\n"),
    ],
)
def test_what_real_templates_use(source: str, text: str) -> None:
    """Rendered as they stand, without a look at whether all messages appear."""
    assert render(source).text == text


def test_a_system_prompt_that_is_refused_goes_before_the_first_user_message() -> None:
    gemma = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}
{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{ '<start_of_turn>' + message['role'] + '\\n' + message['content'] | trim + '<end_of_turn>' }}{% endfor %}"""
    rendered = render(gemma)
    assert "<start_of_turn>user\nBe brief.\n\nWho?<end_of_turn>" in rendered.text
    (note,) = rendered.notes
    assert "System role not supported" in note
    assert "before the first user message" in note


def test_a_system_prompt_that_is_dropped_in_silence_is_merged_too() -> None:
    rendered = render("{% for m in messages if m.role != 'system' %}<{{ m.content }}>{% endfor %}")
    assert rendered.text == "<Be brief.\n\nWho?><Ada.><When?>"
    assert len(rendered.notes) == 1


def test_a_template_that_wants_parts_gets_parts() -> None:
    part = "{% if part.type == 'text' %}[{{ part.text }}]{% endif %}"
    source = "{% for m in messages %}{% for part in m.content %}" + part + "{% endfor %}{% endfor %}"
    assert render(source) == Rendered("[Be brief.][Who?][Ada.][When?]")


def test_a_message_that_is_left_out_whatever_the_form_is_told() -> None:
    rendered = render("{{ messages[0].content }} and no more")
    assert "Be brief." in rendered.text
    assert "user message" in rendered.notes[0]


def test_a_refusal_is_quoted() -> None:
    error = fault("{{ raise_exception('Only one turn, please') }}")
    assert "Only one turn, please" in error.why


def test_a_syntax_error_has_its_line() -> None:
    assert "line 2" in fault("fine\n{% nonsense %}").why


def test_an_empty_result_is_an_error() -> None:
    assert "no text" in fault("{{ '' }}").why


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ (messages | attr('__class__')).x }}",
        "{{ messages.append(1) }}",
        "{% include '/etc/passwd' %}",
        "{{ messages[0].content.format.__self__.__class__ }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ 10**(10**10) }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ 'x'.center(10**10) }}",
        "{{ lipsum(n=10**6) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% for i in range(99999) %}" + "a" * 100 + "{% endfor %}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ messages[0].content.nothing.more }}",
    ],
)
def test_a_hostile_template_is_an_error(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "TIME_LIMIT_S", 0.5)
    fault(source)


def test_the_time_limit_holds_and_the_next_template_renders() -> None:
    source = "{% if messages | length > 2 %}{{ 10**(messages | length * 10**9) }}{% endif %}{{ messages[0].content }}"
    template = ChatTemplate(source, "", "")
    assert template.render(TALK[1:2]).text == "Who?"
    begin = time.monotonic()
    with pytest.raises(PromptError, match="stopped after"):
        template.render(TALK)
    assert time.monotonic() - begin < 20  # a machine under load; the limit itself is two
    assert template.render(TALK[1:2]).text == "Who?"
    template.close()


def test_the_process_ends_with_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def counted(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", counted)
    template = ChatTemplate(CHATML, "", "")
    template.render(TALK)
    (process,) = started
    assert process.poll() is None
    del template
    gc.collect()
    assert process.poll() is not None


def test_a_process_that_was_killed_in_between_is_replaced() -> None:
    template = ChatTemplate(CHATML, "", "")
    first = template.render(TALK)
    assert template._worker is not None
    template._worker._process.kill()
    template._worker._process.wait()
    assert template.render(TALK) == first
    template.close()


def test_any_text_comes_through_as_it_is() -> None:
    odd = "é漢字😀 \u2028 \x00 \t {{ x }} {% y %}\r\n\ud83d"
    assert render("[{{ messages[0].content }}]", [{"role": "user", "content": odd}]).text == f"[{odd}]"


def test_bos_is_taken_off_only_where_the_tokeniser_adds_it() -> None:
    assert without_written_bos("<s>Hello", "<s>", add_bos=True) == "Hello"
    assert without_written_bos("<s><s>Hello", "<s>", add_bos=True) == "<s>Hello"
    assert without_written_bos("<s>Hello", "<s>", add_bos=False) == "<s>Hello"
    assert without_written_bos("Hello", "<s>", add_bos=True) == "Hello"
    assert without_written_bos("Hello", "", add_bos=True) == "Hello"
