"""Flags are ours and have their values; else the error says what to write instead."""

from __future__ import annotations

import pytest

from specdec_cli.errors import UsageError
from specdec_cli.settings.flags import tidy
from specdec_cli.settings.llama_flags import LACKS
from specdec_cli.settings.table import SETTINGS


def _tidy(*arguments: str) -> list[str]:
    return tidy(arguments, SETTINGS, "run")


def _error(*arguments: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        _tidy(*arguments)
    return caught.value


def test_words_and_flags_with_values_pass() -> None:
    arguments = ["m.gguf", "-ngl", "99", "--temp", "-1", "hello", "-", "--no-mmap"]
    assert _tidy(*arguments) == arguments


def test_a_value_may_be_joined_with_an_equals_sign_to_any_flag() -> None:
    assert _tidy("--temp=0.5", "-c=512", "-p=a=b") == ["--temp", "0.5", "-c", "512", "-p", "a=b"]


def test_underscores_in_long_flags_are_hyphens_and_those_in_values_stay() -> None:
    assert _tidy("--ctx_size", "8", "--cache_type_k=q8_0") == ["--ctx-size", "8", "--cache-type-k", "q8_0"]


def test_a_value_that_looks_like_a_flag_is_a_value() -> None:
    assert _tidy("-p", "--mirostat", "-n", "-1") == ["-p", "--mirostat", "-n", "-1"]


def test_what_follows_two_hyphens_is_left_alone() -> None:
    assert _tidy("m.gguf", "--", "--mirostat", "-x") == ["m.gguf", "--", "--mirostat", "-x"]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_asked_for_help_nothing_else_counts(flag: str) -> None:
    assert _tidy("m.gguf", flag, "--bogus") == ["--help"]
    assert _tidy("-p", flag) == ["-p", flag]


@pytest.mark.parametrize("flag", LACKS)
def test_a_flag_of_llama_cpp_that_is_missing_is_named_as_such(flag: str) -> None:
    error = _error("m.gguf", flag, "1")
    assert error.what == f"specdec has no {flag} (a llama.cpp flag)."
    assert error.why
    assert error.fix
    assert error.exit_code == 2


def test_a_short_flag_of_llama_cpp_is_not_taken_for_a_bundle_of_ours() -> None:
    # -c is ours and -b is: a parser that bundles would read -cb as -c with the value b.
    assert "llama.cpp flag" in _error("-cb").what


@pytest.mark.parametrize(
    ("flag", "nearest"), [("--tmep", "--temp"), ("--draft-mx", "--draft-max"), ("--flash-atn", "--flash-attn")]
)
def test_a_mistyped_flag_is_met_with_the_nearest(flag: str, nearest: str) -> None:
    error = _error(flag, "1")
    assert flag in error.what
    assert error.fix == f"Use {nearest}."


def test_a_flag_like_nothing_known_is_met_with_the_help() -> None:
    assert _error("--bogus").fix == "specdec run --help"


def test_a_value_glued_to_a_flag_is_taken_apart_in_the_fix() -> None:
    assert _error("-ngl99").fix == "Use -ngl 99."


def test_a_prompt_that_begins_with_a_hyphen_is_shown_the_way() -> None:
    assert _error("m.gguf", "-5 degrees").fix.endswith("-- '-5 degrees'")


def test_a_flag_without_its_value_says_what_it_takes() -> None:
    error = _error("-c")
    assert error.what == "-c needs a value."
    assert "8 to" in error.why


def test_a_switch_with_a_value_is_shown_both_spellings() -> None:
    assert _error("--mmap=false").fix == "Use --mmap or --no-mmap."


def test_a_flag_of_another_command_is_said_to_be_one() -> None:
    with pytest.raises(UsageError) as caught:
        tidy(["-c", "8"], {"temp": SETTINGS["temp"]}, "demo")
    assert caught.value.what == "specdec demo does not take -c."


def test_a_flag_cannot_write_to_the_terminal_through_the_message() -> None:
    assert "\x1b" not in str(_error("--\x1b[31m"))


def test_a_flag_of_another_command_is_said_to_be_its() -> None:
    run = {name: setting for name, setting in SETTINGS.items() if not setting.only}
    with pytest.raises(UsageError) as caught:
        tidy(["--require-speedup", "2"], run, "run")
    assert caught.value.why == "It is a flag of specdec bench."
