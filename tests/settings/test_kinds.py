"""Texts become values, or an error that says why not; nothing else ever."""

from __future__ import annotations

import contextlib
import math

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.llama.options import CacheType, FlashAttention, Lora
from specdec_cli.settings import kinds
from specdec_cli.settings.kinds import BadValue, Choice, Integer, Kind, Real, Several, Size, Span, Switch
from specdec_cli.settings.table import SETTINGS, Setting


def _reason(kind: Kind, text: str) -> str:
    with pytest.raises(BadValue) as caught:
        kind.parse(text)
    return caught.value.reason


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
@hypothesis.settings(max_examples=40)
@given(text=st.one_of(st.text(max_size=20), st.text("0123456789.,+-:=eEinfa/", max_size=12)))
def test_no_text_raises_anything_but_a_bad_value(setting: Setting, text: str) -> None:
    with contextlib.suppress(BadValue):
        setting.kind.parse(text)


@given(st.integers(), st.integers(-100, 0), st.integers(1, 100))
def test_an_integer_is_taken_exactly_when_it_lies_in_the_range(value: int, low: int, high: int) -> None:
    kind = Integer(low, high)
    if low <= value <= high:
        assert kind.parse(str(value)) == value
    else:
        assert _reason(kind, str(value)) == "is out of range"


@pytest.mark.parametrize("text", ["", "1.9", "1e3", "0x10", "1_000", "one", " 1", "1\n", "\u0661", "nan", "--1"])
def test_what_is_not_a_plain_integer_is_none(text: str) -> None:
    assert _reason(Integer(0, 9999), text) == "is not an integer"


def test_an_integer_of_thousands_of_digits_is_out_of_range() -> None:
    assert _reason(Integer(0, 9), "9" * 10_000) == "is out of range"


def test_words_and_values_outside_the_range_are_taken_where_the_kind_names_them() -> None:
    kind = Integer(8, 100, "0 = all", also=(0,), words=(("auto", -1),))
    assert (kind.parse("auto"), kind.parse("0"), kind.parse("+8")) == (-1, 0, 8)
    assert _reason(kind, "1") == "is out of range"
    assert kind.expects == "auto, or 0, or an integer from 8 to 100 (0 = all)"


@given(st.floats(0, 1))
def test_a_real_in_range_is_read_back(value: float) -> None:
    assert Real(0, 1).parse(repr(value)) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "", ".", "1_0", "0x1p3", "1,5", "\u0661.5"])
def test_what_is_not_a_finite_number_is_none(text: str) -> None:
    assert _reason(Real(-1e9, 1e9), text) == "is not a finite number"


def test_an_open_end_is_not_in_the_range() -> None:
    kind = Real(0, 2, above_low=True)
    assert kind.parse("0.001") == 0.001
    assert _reason(kind, "0") == "is out of range"
    assert kind.expects == "a number above 0, up to 2"


@pytest.mark.parametrize(
    ("text", "value"), [("on", True), ("TRUE", True), ("1", True), ("off", False), ("no", False), ("0", False)]
)
def test_a_switch_reads_the_usual_words(text: str, value: bool) -> None:
    assert Switch().parse(text) is value


def test_a_switch_takes_nothing_else() -> None:
    assert _reason(Switch(), "2") == "is neither on nor off"


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("ON", "on"), ("1", "on"), ("false", "off")])
def test_a_choice_with_on_and_off_reads_the_words_of_a_switch(text: str, value: str) -> None:
    assert Choice(FlashAttention).parse(text) is FlashAttention(value)


def test_a_mistyped_choice_is_met_with_the_nearest() -> None:
    with pytest.raises(BadValue) as caught:
        Choice(CacheType).parse("q8")
    assert caught.value.better == "q8_0"
    assert "q4_1" in Choice(CacheType).expects


@pytest.mark.parametrize(
    "text",
    ["draft.gguf", "DRAFT.GGUF", "./draft", "dir/draft", r"C:\models\draft", "owner/repo", "owner/repo:Q4_K_M", "ngram"],
)
def test_files_hub_references_and_names_are_references(text: str) -> None:
    assert SETTINGS["draft"].kind.parse(text) == (text,)


@pytest.mark.parametrize("text", ["small.gguf,ngram", "ngram,owner/repo:Q4_0"])
def test_several_drafters_have_commas_between(text: str) -> None:
    assert SETTINGS["draft"].kind.parse(text) == tuple(text.split(","))


def test_a_comma_in_a_files_name_separates_nothing() -> None:
    assert SETTINGS["draft"].kind.parse("big, small.gguf") == ("big, small.gguf",)


def test_a_name_may_be_written_in_capitals() -> None:
    assert SETTINGS["draft"].kind.parse("NGRAM") == ("ngram",)


@pytest.mark.parametrize("text", ["16", "draft", "mirostat", "ngrams"])
def test_any_other_word_is_no_reference(text: str) -> None:
    assert "neither" in _reason(SETTINGS["draft"].kind, text)


def test_a_drafters_name_is_not_a_target() -> None:
    assert SETTINGS["model"].kind.parse("demo") == "demo"
    assert "neither" in _reason(SETTINGS["model"].kind, "ngram")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15043+1", ((15043, 1.0),)),
        ("15043-0.5", ((15043, -0.5),)),
        ("7-inf", ((7, -math.inf),)),
        ("1+1,2-2", ((1, 1.0), (2, -2.0))),
    ],
)
def test_biases_are_written_as_llama_cpp_writes_them(text: str, value: object) -> None:
    assert SETTINGS["logit_bias"].kind.parse(text) == value


@pytest.mark.parametrize("text", ["15043", "15043=1", "+1", "a+1", "1+", "1+inf", "1+nan", "-1+1", "1+1,"])
def test_a_bias_that_cannot_be_meant_is_refused(text: str) -> None:
    assert _reason(SETTINGS["logit_bias"].kind, text)


def test_shares_are_separated_by_commas_or_slashes() -> None:
    kind = SETTINGS["tensor_split"].kind
    assert kind.parse("3,1") == kind.parse("3/1") == (3.0, 1.0)
    assert _reason(kind, "3,-1") == "has a negative share"


def test_a_scale_stands_behind_the_last_colon() -> None:
    kind = SETTINGS["lora_scaled"].kind
    (adapter,) = Several("", "", kinds.scaled_lora).parse(r"C:\a.gguf:0.5")
    assert isinstance(adapter, Lora)
    assert (str(adapter.path), adapter.scale) == (r"C:\a.gguf", 0.5)
    assert _reason(kind, "a.gguf") == "does not read as FILE:SCALE"


@pytest.mark.parametrize("text", ["a=int:1", "a.b=float:0.5", "a=bool:true", "a=str:", "a=str:x y"])
def test_metadata_is_replaced_by_key_type_and_value(text: str) -> None:
    assert SETTINGS["override_kv"].kind.parse(text) == (text,)


@pytest.mark.parametrize("text", ["a", "a=1", "a=int:x", "a=bool:yes", "a=float:nan", "=int:1", f"a=str:{'x' * 128}"])
def test_a_replacement_that_llama_cpp_would_refuse_is_refused(text: str) -> None:
    assert _reason(SETTINGS["override_kv"].kind, text)


def test_a_tensor_pattern_has_to_read_as_a_pattern() -> None:
    kind = SETTINGS["override_tensor"].kind
    assert kind.parse("exps=CPU,attn=CUDA0") == (("exps", "CPU"), ("attn", "CUDA0"))
    assert "pattern" in _reason(kind, "(=CPU")
    assert _reason(kind, "exps=") == "does not read as PATTERN=BUFFER"


@pytest.mark.parametrize(("text", "shown"), [("plain", "plain"), ("two words", "'two words'"), ("\x1b[1m", "'\\x1b[1m'")])
def test_a_text_in_a_message_is_one_visible_word(text: str, shown: str) -> None:
    assert kinds.quoted(text) == shown
    assert len(kinds.quoted("x" * 10_000)) < 100


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("8G", 8 * 10**9),
        ("600mb", 600 * 10**6),
        ("1.5 GiB", 3 * 2**29),
        ("7", 7),
        (".5k", 500),
        ("2KiB", 2048),
        ("1TB", 10**12),
    ],
)
def test_a_size_is_bytes(text: str, n: int) -> None:
    assert Size().parse(text) == n


@pytest.mark.parametrize("text", ["", "G", "8 Q", "8iB", "-1G", "1e9", "0", "0.1", "9" * 30 + "T"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        Size().parse(text)


@pytest.mark.parametrize(("text", "span"), [("3:7", (3, 7)), (":7", (0, 7)), ("3:", (3, None)), (":", (0, None))])
def test_a_range_is_read_as_slices_are(text: str, span: tuple[int, int | None]) -> None:
    assert Span().parse(text) == span


@pytest.mark.parametrize("text", ["", "5", "7:3", "3:3", ":0", "-1:2", "1:2:3", "a:b"])
def test_a_range_that_holds_nothing_or_is_none_is_refused(text: str) -> None:
    assert _reason(Span(), text)
