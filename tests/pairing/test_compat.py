"""The gate on pairs: what two vocabularies may differ in, and which ids are then never drafted."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from specdec_cli.pairing.compat import Compatibility, compare
from specdec_cli.pairing.findings import Finding, Rule, Verdict
from tests.gguf_files import TINY, copy_with_changes, copy_with_padding, smollm2, write_vocab_gguf

T = TokenType
N_TEXT = 200


def strings(items: Sequence[str]) -> StringArray:
    encoded = [item.encode() for item in items]
    return StringArray(b"".join(struct.pack("<Q", len(item)) + item for item in encoded), len(encoded))


WORDS = ["<unk>", "<s>", "</s>", *(f"▁word{i}" for i in range(N_TEXT))]
TYPES = [T.UNKNOWN, T.CONTROL, T.CONTROL, *[T.NORMAL] * N_TEXT]


def vocab(
    words: Sequence[str] = WORDS, types: Sequence[int] = TYPES, model: str = "llama", pre: str | None = None
) -> Vocabulary:
    return Vocabulary(
        model=model,
        pre=pre,
        tokens=strings(words),
        types=np.array(types, np.int32),
        merges=None,
        scores=None,
        bos=1,
        eos=2,
        eot=None,
        eom=None,
        pad=None,
        add_bos=True,
        add_eos=False,
    )


def changed(at: int, word: str | None = None, kind: int | None = None) -> Vocabulary:
    """The base vocabulary with another token at one id."""
    words, types = list(WORDS), list(TYPES)
    words[at] = words[at] if word is None else word
    types[at] = types[at] if kind is None else TokenType(kind)
    return vocab(words, types)


def grown(words: Sequence[str], kind: int) -> Vocabulary:
    return vocab([*WORDS, *words], [*TYPES, *[kind] * len(words)])


def only(result: Compatibility) -> Finding:
    assert len(result.findings) == 1
    return result.findings[0]


def test_equal_vocabularies_are_compatible_and_nothing_is_forbidden() -> None:
    result = compare(vocab(), vocab())
    assert result.verdict == Verdict.COMPATIBLE
    assert result.findings == ()
    assert result.undraftable.size == 0
    assert (result.n_shared, result.n_draftable) == (len(WORDS), len(WORDS))
    assert not result.forbidden(len(WORDS)).any()


@pytest.mark.parametrize("n_more", [1, 128, 129, 5000])
@pytest.mark.parametrize("spelled", ["[PAD{}]", "<unused{}>", "<|reserved_special_token_{}|>", "anything {}"])
@pytest.mark.parametrize("larger", ["target", "draft"])
def test_padding_may_differ_by_any_number_both_ways(n_more: int, spelled: str, larger: str) -> None:
    kind = T.UNUSED if spelled.startswith("any") else T.NORMAL
    padded = grown([spelled.format(i) for i in range(n_more)], kind)
    result = compare(padded, vocab()) if larger == "target" else compare(vocab(), padded)
    assert result.verdict == Verdict.COMPATIBLE
    assert f"The {larger} has {n_more:,} padding token{'s' if n_more > 1 else ''} more" in only(result).sentence
    assert result.n_shared == len(WORDS)
    mask = result.forbidden(len(WORDS) + n_more)
    assert not mask[: len(WORDS)].any()
    assert mask[len(WORDS) :].all()


@pytest.mark.parametrize("larger", ["target", "draft"])
def test_more_text_makes_a_pair_usable_in_part(larger: str) -> None:
    more = grown(["▁new", "▁words"], T.NORMAL)
    result = compare(more, vocab()) if larger == "target" else compare(vocab(), more)
    assert result.verdict == Verdict.PARTIAL
    assert only(result).rule == Rule.EXTRA_TEXT
    assert f"The {larger} has 2 text tokens more" in only(result).sentence
    assert "' new'" in only(result).sentence
    assert only(result).ids.tolist() == [len(WORDS), len(WORDS) + 1]
    assert result.undraftable.size == 0


def test_more_control_tokens_are_a_note() -> None:
    result = compare(grown(["<|tool|>"], T.CONTROL), vocab())
    assert (result.verdict, only(result).rule) == (Verdict.NOTES, Rule.EXTRA_CONTROL)


def test_one_other_text_token_is_enough_to_be_incompatible() -> None:
    result = compare(vocab(), changed(57, "▁other"))
    assert result.verdict == Verdict.INCOMPATIBLE
    assert result.undraftable.tolist() == [57]
    assert "id 57: ' word54' in the target, ' other' in the draft" in only(result).sentence


def test_two_swapped_tokens_are_incompatible() -> None:
    words = list(WORDS)
    words[20], words[90] = words[90], words[20]
    result = compare(vocab(), vocab(words))
    assert result.verdict == Verdict.INCOMPATIBLE
    assert only(result).ids.tolist() == [20, 90]


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_tokens_of_the_same_number_are_incompatible(seed: int) -> None:
    order = np.arange(len(WORDS))
    order[10:110] = np.random.default_rng(seed).permutation(order[10:110])
    shuffled = vocab([WORDS[i] for i in order])
    assert compare(vocab(), shuffled).verdict == Verdict.INCOMPATIBLE


def test_other_control_tokens_are_a_note_and_never_drafted() -> None:
    result = compare(vocab(), changed(1, "<bos>"))
    assert result.verdict == Verdict.NOTES
    assert only(result).rule == Rule.CONTROL
    assert "id 1: '<s>' in the target, '<bos>' in the draft" in only(result).sentence
    assert result.undraftable.tolist() == [1]


@pytest.mark.parametrize(("at", "kind"), [(1, T.USER_DEFINED), (1, T.NORMAL), (40, T.CONTROL)])
def test_token_that_only_one_types_as_control_is_never_drafted(at: int, kind: TokenType) -> None:
    for pair in ((vocab(), changed(at, kind=kind)), (changed(at, kind=kind), vocab())):
        result = compare(*pair)
        assert result.verdict == Verdict.NOTES
        assert result.undraftable.tolist() == [at]
        assert kind.name in only(result).sentence


def test_added_token_against_a_control_token_is_a_note() -> None:
    result = compare(vocab(), changed(1, "<|User|>", T.USER_DEFINED))
    assert (result.verdict, result.undraftable.tolist()) == (Verdict.NOTES, [1])


def test_other_tokens_added_to_one_vocabulary_are_usable_in_part() -> None:
    target, draft = changed(40, "<think>", T.USER_DEFINED), changed(40, "<tool_call>", T.USER_DEFINED)
    result = compare(target, draft)
    assert (result.verdict, result.undraftable.tolist()) == (Verdict.PARTIAL, [40])
    assert {found.rule for found in result.findings} == {Rule.ADDED}


def test_text_against_a_control_token_of_other_spelling_is_incompatible() -> None:
    assert compare(vocab(), changed(40, "<|mask|>", T.CONTROL)).verdict == Verdict.INCOMPATIBLE


def test_control_token_against_padding_is_a_note() -> None:
    for pair in ((vocab(), changed(1, "[PAD1]", T.UNUSED)), (changed(1, "[PAD1]", T.UNUSED), vocab())):
        result = compare(*pair)
        assert (result.verdict, result.undraftable.tolist()) == (Verdict.NOTES, [1])


def test_text_against_padding_is_usable_in_part() -> None:
    result = compare(vocab(), changed(40, "<unused7>", T.UNUSED))
    assert (result.verdict, only(result).rule) == (Verdict.PARTIAL, Rule.UNUSED)
    assert "padding in the draft" in only(result).sentence
    assert result.undraftable.tolist() == [40]
    assert "padding in the target" in only(compare(changed(40, "<unused7>", T.UNUSED), vocab())).sentence


def test_padding_that_both_have_is_never_drafted_however_spelled() -> None:
    result = compare(changed(40, "<unused7>", T.UNUSED), changed(40, "[PAD40]", T.UNUSED))
    assert result.findings == ()
    assert result.undraftable.tolist() == [40]


def test_text_that_is_written_alike_is_the_same_however_typed() -> None:
    assert compare(changed(40, "▁▁", T.NORMAL), changed(40, "  ", T.USER_DEFINED)).findings == ()


def test_byte_token_is_not_the_text_that_spells_it() -> None:
    result = compare(changed(40, "<0x0A>", T.BYTE), changed(40, "<0x0A>", T.NORMAL))
    assert (result.verdict, only(result).rule) == (Verdict.PARTIAL, Rule.READING)
    assert result.undraftable.tolist() == [40]
    assert r"'\n' (BYTE b'<0x0A>') in the target, '<0x0A>' (NORMAL b'<0x0A>') in the draft" in only(result).sentence


def test_other_kind_of_tokenizer_with_other_text_is_incompatible() -> None:
    result = compare(vocab(), replace(changed(57, "Ġother"), model="gpt2"))
    assert result.verdict == Verdict.INCOMPATIBLE
    assert [finding.rule for finding in result.findings] == [Rule.TOKENIZER, Rule.TEXT]
    assert "'llama'" in result.findings[0].sentence
    assert "'gpt2'" in result.findings[0].sentence


def test_other_kind_of_tokenizer_with_the_same_text_is_a_note() -> None:
    result = compare(vocab(model="gemma4"), vocab())
    assert (result.verdict, only(result).rule) == (Verdict.NOTES, Rule.TOKENIZER)
    assert result.undraftable.size == 0


def test_letters_that_only_byte_level_bpe_reads_as_bytes_are_never_drafted() -> None:
    result = compare(changed(57, "Ġother"), replace(changed(57, "Ġother"), model="gpt2"))
    assert (result.verdict, result.undraftable.tolist()) == (Verdict.PARTIAL, [57])
    assert [finding.rule for finding in result.findings] == [Rule.TOKENIZER, Rule.READING]


@pytest.mark.parametrize(("at", "verdict"), [(0, Verdict.PARTIAL), (4, Verdict.PARTIAL), (5, Verdict.INCOMPATIBLE)])
def test_text_that_differs_in_the_first_five_ids_alone_leaves_the_rest_usable(at: int, verdict: Verdict) -> None:
    words, types = [f"▁a{i}" for i in range(9)], [T.NORMAL] * 9
    other = [*words[:at], "▁other", *words[at + 1 :]]
    result = compare(vocab(words, types), vocab(other, types))
    assert result.verdict == verdict
    assert result.undraftable.tolist() == [at]


def test_a_finding_shows_the_first_five_tokens_as_each_reads_them() -> None:
    words = [*WORDS[:20], *(f"▁other{i}" for i in range(7)), *WORDS[27:]]
    shown = only(compare(vocab(), vocab(words, TYPES))).examples
    assert [example.token for example in shown] == [20, 21, 22, 23, 24]
    assert (shown[0].target, shown[0].draft) == ("' word17'", "' other0'")
    more = only(compare(vocab(), grown(["▁x", "▁y"], T.NORMAL))).examples
    assert [(example.token, example.target, example.draft) for example in more] == [(203, None, "' x'"), (204, None, "' y'")]


def test_byte_level_tokens_are_shown_readably() -> None:
    words = ["Ġthe", "Ċ", "a"]
    other = ["Ġof", "Ċ", "a"]
    target, draft = vocab(words, [T.NORMAL] * 3, "gpt2"), vocab(other, [T.NORMAL] * 3, "gpt2")
    assert "' the' in the target, ' of' in the draft" in only(compare(target, draft)).sentence


def test_pre_tokenizer_is_a_note_and_a_missing_one_is_the_default() -> None:
    result = compare(vocab(pre="qwen2"), vocab(pre="smollm"))
    assert (result.verdict, only(result).rule) == (Verdict.NOTES, Rule.PRE)
    assert compare(vocab(pre="default"), vocab(pre=None)).findings == ()


def test_rules_of_special_tokens_are_information_each_in_its_own_sentence() -> None:
    base = vocab()
    for other, rule, words in (
        (replace(base, eos=0), Rule.EOS, "2 '</s>' in the target, 0 '<unk>' in the draft"),
        (replace(base, eos=None), Rule.EOS, "none given in the draft"),
        (replace(base, bos=0, add_bos=True), Rule.BOS, "1 '<s>' in the target"),
        (replace(base, add_bos=False), Rule.ADD_BOS, "yes for the target, no for the draft"),
        (replace(base, add_bos=None), Rule.ADD_BOS, "not said for the draft"),
        (replace(base, merges=strings(["a b"])), None, ""),
    ):
        result = compare(base, other)
        assert result.verdict == Verdict.COMPATIBLE
        assert result.undraftable.size == 0
        if rule is None:
            assert result.findings == ()
        else:
            assert only(result).rule == rule
            assert words in only(result).sentence
    several = compare(base, replace(base, eos=0, bos=2, add_bos=False))
    assert [finding.rule for finding in several.findings] == [Rule.EOS, Rule.BOS, Rule.ADD_BOS]


def test_merges_and_scores_are_information() -> None:
    base = replace(vocab(), merges=strings(["a b"]), scores=np.zeros(len(WORDS), np.float32))
    other = replace(base, merges=strings(["a b", "b c"]), scores=np.ones(len(WORDS), np.float32))
    result = compare(base, other)
    assert result.verdict == Verdict.COMPATIBLE
    assert [finding.rule for finding in result.findings] == [Rule.MERGES, Rule.SCORES]


def test_nothing_left_to_draft_is_incompatible() -> None:
    padding = vocab(["<unused0>", "<unused1>", "<unused2>"], [T.UNUSED] * 3)
    assert compare(padding, padding).verdict == Verdict.INCOMPATIBLE


def test_what_differs_is_forbidden_to_draft() -> None:
    result = compare(vocab(), changed(57, "▁other"))
    assert result.verdict == Verdict.INCOMPATIBLE
    assert np.flatnonzero(result.forbidden(len(WORDS))).tolist() == [57]


def test_real_model_against_itself_and_against_a_changed_copy_of_its_vocabulary(tmp_path: Path) -> None:
    real = vocabulary(read_header(smollm2()))
    assert compare(real, real).verdict == Verdict.COMPATIBLE
    words = list(real.tokens)
    words[1000], words[2000] = words[2000], words[1000]
    path = write_vocab_gguf(tmp_path / "swapped.gguf", words, real.types.tolist(), pre="smollm")
    result = compare(real, vocabulary(read_header(path)))
    assert result.verdict == Verdict.INCOMPATIBLE
    assert result.undraftable.tolist() == [1000, 2000]


def test_padded_and_edited_copies_of_a_model_file(tmp_path: Path) -> None:
    source = write_vocab_gguf(tmp_path / "m.gguf", ["a", "b", "c", "d"], tensors=TINY)
    base = vocabulary(read_header(source))
    padded = read_header(copy_with_padding(source, tmp_path / "padded.gguf", 128))
    assert next(t for t in padded.tensors if t.name == "token_embd.weight").shape == (32, 132)
    assert "128 padding tokens more" in only(compare(base, vocabulary(padded))).sentence
    edit = {"tokenizer.ggml.tokens": ["a", "c", "b", "d"], "tokenizer.ggml.pre": None}
    edited = vocabulary(read_header(copy_with_changes(source, tmp_path / "edited.gguf", edit)))
    assert edited.pre is None
    assert compare(base, edited).undraftable.tolist() == [1, 2]


token_lists = st.lists(
    st.tuples(st.sampled_from(["a", "▁b", "<0x0A>", "<s>", "<unused1>", "[PAD3]", "", "  ", "▁▁"]), st.integers(0, 6)),
    min_size=1,
    max_size=12,
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(token_lists, token_lists, st.sampled_from(["llama", "gpt2"]))
def test_what_may_be_drafted_reads_alike_in_both(one: list[tuple[str, int]], other: list[tuple[str, int]], model: str) -> None:
    target, draft = (vocab([w for w, _ in side], [k for _, k in side], model) for side in (one, other))
    target, draft = replace(target, bos=None, eos=None), replace(draft, bos=None, eos=None)
    result, mirrored = compare(target, draft), compare(draft, target)
    assert result.verdict == mirrored.verdict
    assert result.undraftable.tolist() == mirrored.undraftable.tolist()
    free = np.flatnonzero(~result.forbidden(max(target.n_vocab, draft.n_vocab)))
    assert len(free) == result.n_draftable
    special = (T.CONTROL, T.UNKNOWN)
    for i in free.tolist():
        assert target.piece(i) == draft.piece(i)
        assert (target.types[i] in special) == (draft.types[i] in special)
        assert T.UNUSED not in (target.types[i], draft.types[i])
    if result.verdict < Verdict.INCOMPATIBLE:
        assert result.n_draftable > 0


@settings(derandomize=True, max_examples=300, deadline=None)
@given(token_lists, st.data(), st.sampled_from([("llama", "llama"), ("gpt2", "gpt2"), ("gpt2", "gemma4")]))
def test_texts_that_agree_from_the_sixth_on_are_usable_however_typed(
    one: list[tuple[str, int]], data: st.DataObject, models: tuple[str, str]
) -> None:
    """What llama.cpp's own rule accepts: it looks at no type, and at none of the first five texts."""
    first = data.draw(st.lists(st.sampled_from(["x", "<y>", "▁z"]), min_size=5, max_size=5))
    words = [word for word, _ in one]
    other = (first + words[5:])[: len(words)]
    types = data.draw(st.lists(st.integers(0, 6), min_size=len(words), max_size=len(words)))
    sides = (words, [kind for _, kind in one], models[0]), (other, types, models[1])
    target, draft = (replace(vocab(*side), bos=None, eos=None) for side in sides)
    result = compare(target, draft)
    assert result.verdict < Verdict.INCOMPATIBLE or result.n_draftable == 0
