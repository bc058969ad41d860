"""Right verdicts on pairs of written vocabularies, beside what llama.cpp's own rule says of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.pairing.compat import compare
from specdec_cli.pairing.ends import end_tokens
from specdec_cli.pairing.findings import Rule, Verdict
from tests.pairing import llama_rule
from tests.pairing.llama_rule import LlamaVocabulary
from tests.pairing.written import BPE, BPE_CONTROL, BPE_WORD, GEMMA4, N_SPM, SPM, SPM_WORD, Written

T, V = TokenType, Verdict

VOCABULARIES: dict[str, Written] = {
    "spm": SPM,
    "spm +1 padding": SPM.padded(1),
    "spm +128 padding": SPM.padded(128),
    "spm +129 padding": SPM.padded(129),
    "spm +5000 padding": SPM.padded(5000, T.NORMAL),
    "spm shuffled": SPM.shuffled(SPM_WORD + 5, SPM_WORD + 25),
    "spm two swapped": SPM.swapped(SPM_WORD + 2, SPM_WORD + 7),
    "spm word typed as user-defined": SPM.changed(SPM_WORD + 3, kind=T.USER_DEFINED),
    "spm byte typed as text": SPM.changed(200, kind=T.NORMAL),
    "spm word typed as control": SPM.changed(SPM_WORD + 3, kind=T.CONTROL),
    "spm control renamed": SPM.changed(1, "<bos>"),
    "spm extra control": SPM.grown(("<pad>", T.CONTROL), ("<mask>", T.CONTROL)),
    "spm extra text": SPM.grown(("▁more", T.NORMAL)),
    "spm word unused": SPM.changed(SPM_WORD + 3, "<unused3>", T.UNUSED),
    "spm without add bos": SPM.keyed(add_bos_token=False),
    "spm other bos": SPM.keyed(bos_token_id=0),
    "spm other bos, not added": SPM.keyed(bos_token_id=0, add_bos_token=False),
    "spm other eos": SPM.keyed(eos_token_id=0),
    "spm other eos, added": SPM.keyed(eos_token_id=0, add_eos_token=True),
    "spm other scores": SPM.keyed(scores=[float(i) for i in range(N_SPM)]),
    "gemma4": GEMMA4,
    "bpe": BPE,
    "bpe +290 padding": BPE.padded(290),
    "bpe control renamed": BPE.changed(BPE_CONTROL + 1, "<|user|>"),
    "bpe control as padding": BPE.changed(BPE_CONTROL + 1, "[PAD1]", T.UNUSED),
    "bpe extra control": BPE.grown(("<|fim_pad|>", T.CONTROL)),
    "bpe other pre": Written(BPE.tokens, "gpt2", "smollm", BPE.extra),
    "bpe other merges": BPE.keyed(merges=["w o"]),
    "bpe other eos": BPE.keyed(eos_token_id=BPE_CONTROL),
    "bpe two swapped": BPE.swapped(BPE_WORD, BPE_WORD + 1),
    "bpe other in the first five": BPE.changed(3, "Ġother"),
    "bpe sixth other": BPE.changed(5, "Ġother"),
    "bpe control typed as text": BPE.changed(BPE_CONTROL, kind=T.NORMAL),
    "bpe control typed as added": BPE.changed(BPE_CONTROL, kind=T.USER_DEFINED),
}

# Of each copy with what it was made from, both ways round: the verdict, and the rules of that severity.
WITH_ITS_BASE: dict[str, tuple[Verdict, set[Rule]]] = {
    "spm +1 padding": (V.COMPATIBLE, {Rule.PADDING}),
    "spm +128 padding": (V.COMPATIBLE, {Rule.PADDING}),
    "spm +129 padding": (V.COMPATIBLE, {Rule.PADDING}),
    "spm +5000 padding": (V.COMPATIBLE, {Rule.PADDING}),
    "spm shuffled": (V.INCOMPATIBLE, {Rule.TEXT}),
    "spm two swapped": (V.INCOMPATIBLE, {Rule.TEXT}),
    # "▁word3" as a user-defined token has a letter where the other has a space.
    "spm word typed as user-defined": (V.PARTIAL, {Rule.READING}),
    "spm byte typed as text": (V.PARTIAL, {Rule.READING}),
    "spm word typed as control": (V.NOTES, {Rule.CONTROL}),
    "spm control renamed": (V.NOTES, {Rule.CONTROL}),
    "spm extra control": (V.NOTES, {Rule.EXTRA_CONTROL}),
    "spm extra text": (V.PARTIAL, {Rule.EXTRA_TEXT}),
    "spm word unused": (V.PARTIAL, {Rule.UNUSED}),
    "spm without add bos": (V.COMPATIBLE, {Rule.ADD_BOS}),
    "spm other bos": (V.COMPATIBLE, {Rule.BOS}),
    "spm other bos, not added": (V.COMPATIBLE, {Rule.BOS, Rule.ADD_BOS}),
    "spm other eos": (V.COMPATIBLE, {Rule.EOS}),
    "spm other eos, added": (V.COMPATIBLE, {Rule.EOS, Rule.ADD_EOS}),
    "spm other scores": (V.COMPATIBLE, set()),
    # The same text under another tokenizer: text is cut once, by the target.
    "gemma4": (V.NOTES, {Rule.TOKENIZER}),
    "bpe +290 padding": (V.COMPATIBLE, {Rule.PADDING}),
    "bpe control renamed": (V.NOTES, {Rule.CONTROL}),
    "bpe control as padding": (V.NOTES, {Rule.CONTROL}),
    "bpe extra control": (V.NOTES, {Rule.EXTRA_CONTROL}),
    "bpe other pre": (V.NOTES, {Rule.PRE}),
    "bpe other merges": (V.COMPATIBLE, {Rule.MERGES}),
    "bpe other eos": (V.COMPATIBLE, {Rule.EOS}),
    "bpe two swapped": (V.INCOMPATIBLE, {Rule.TEXT}),
    "bpe other in the first five": (V.PARTIAL, {Rule.TEXT}),
    "bpe sixth other": (V.INCOMPATIBLE, {Rule.TEXT}),
    "bpe control typed as text": (V.NOTES, {Rule.CONTROL}),
    "bpe control typed as added": (V.NOTES, {Rule.CONTROL}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("vocabularies")
    return {name: written.write(folder / f"{name}.gguf") for name, written in VOCABULARIES.items()}


@pytest.fixture(scope="module")
def headers(files: dict[str, Path]) -> dict[str, Header]:
    return {name: read_header(path) for name, path in files.items()}


@pytest.fixture(scope="module")
def read_by_llama(files: dict[str, Path]) -> dict[str, LlamaVocabulary]:
    return {name: llama_rule.read(path) for name, path in files.items()}


def test_the_table_holds_every_copy() -> None:
    assert set(WITH_ITS_BASE) == set(VOCABULARIES) - {"spm", "bpe"}


@pytest.mark.parametrize("name", WITH_ITS_BASE)
def test_verdict_on_a_copy_and_what_it_was_made_from(name: str, headers: dict[str, Header]) -> None:
    base = vocabulary(headers["bpe" if name.startswith("bpe") else "spm"])
    other = vocabulary(headers[name])
    verdict, rules = WITH_ITS_BASE[name]
    for pair in ((base, other), (other, base)):
        result = compare(*pair)
        assert result.verdict == verdict
        assert {found.rule for found in result.findings if found.severity == verdict} == rules


def test_the_two_families_never_mix(headers: dict[str, Header]) -> None:
    for one, other in itertools.product(headers, repeat=2):
        if one.startswith("bpe") != other.startswith("bpe"):
            result = compare(vocabulary(headers[one]), vocabulary(headers[other]))
            assert result.verdict == V.INCOMPATIBLE
            assert {Rule.TOKENIZER, Rule.TEXT} <= {found.rule for found in result.findings}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_end_tokens_are_llama_cpps(name: str, headers: dict[str, Header], read_by_llama: dict[str, LlamaVocabulary]) -> None:
    assert end_tokens(headers[name], vocabulary(headers[name])) == read_by_llama[name].ends


@pytest.mark.parametrize("name", VOCABULARIES)
def test_pieces_are_llama_cpps(name: str, headers: dict[str, Header], read_by_llama: dict[str, LlamaVocabulary]) -> None:
    words = vocabulary(headers[name])
    ours = [words.piece(i) if words.types[i] != T.UNUSED else b"" for i in range(words.n_vocab)]
    assert tuple(ours) == read_by_llama[name].pieces


def test_wherever_llama_cpp_accepts_we_do_and_where_we_differ_the_report_says_why(
    headers: dict[str, Header], read_by_llama: dict[str, LlamaVocabulary]
) -> None:
    n_accepted = 0
    for one, other in itertools.product(headers, repeat=2):
        accepted = llama_rule.accepts(read_by_llama[one], read_by_llama[other])
        result = compare(vocabulary(headers[one]), vocabulary(headers[other]))
        assert not accepted or result.verdict < V.INCOMPATIBLE, f"{one} with {other}"
        if accepted != (result.verdict == V.COMPATIBLE):
            assert result.findings, f"{one} with {other}"
        n_accepted += accepted
    assert n_accepted > 2 * len(headers)  # it says yes often enough to be compared with
