"""Right verdicts on vocabularies of real models, where SPECDEC_VOCABULARIES names folders that hold their GGUF files.

Files are known by a part of their name; of those not in the folders nothing is tested.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.pairing.ends import end_tokens
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import judge
from tests.pairing import llama_rule

VARIABLE = "SPECDEC_VOCABULARIES"

pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no folder of real vocabularies")

# Vocabulary -> a part of the names of its files. All differ in their text but for the groups below.
FILES = {
    "bert-bge": "vocab-bert-bge",
    "command-r": "vocab-command-r",
    "deepseek-coder": "vocab-deepseek-coder",
    "deepseek-llm": "vocab-deepseek-llm",
    "gemma-4": "vocab-gemma-4",
    "gpt-2": "vocab-gpt-2",
    "gpt-neox": "vocab-gpt-neox",
    "llama-bpe": "vocab-llama-bpe",
    "llama-spm": "vocab-llama-spm",
    "qwen2": "vocab-qwen2",
    "starcoder": "vocab-starcoder",
    "smollm2": "smollm2-135m-instruct-q4_1",
    "gemma-3": "gemma-3-270m-q4_k_m",
    "coder 0.5b": "qwen2.5-coder-0.5b-instruct-q4_0",
    "coder 1.5b": "qwen2.5-coder-1.5b-instruct-q4_k_m",
}

BYTE_PAIR = frozenset(FILES) - {"bert-bge", "llama-spm", "gemma-3", "gemma-4"}

# Pairs with the same text, either way round: the rule that decides about the tokens, and how many of them can be drafted.
SAME_TEXT: dict[frozenset[str], tuple[Verdict, Rule, int]] = {
    # Control tokens from 151,646 on are padding in the one and Coder's tools and fill-in tokens in the other.
    frozenset({"qwen2", "coder 0.5b"}): (Verdict.NOTES, Rule.CONTROL, 151_646),
    frozenset({"qwen2", "coder 1.5b"}): (Verdict.NOTES, Rule.CONTROL, 151_646),
    frozenset({"coder 0.5b", "coder 1.5b"}): (Verdict.COMPATIBLE, Rule.SIZE, 151_665),
    # Gemma 4 cuts the vocabulary of Gemma 3 by pairs instead of scores: the same text, other control tokens.
    frozenset({"gemma-3", "gemma-4"}): (Verdict.NOTES, Rule.TOKENIZER, 255_898),
}


def found_files() -> dict[str, Path]:
    folders = [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    paths = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
    return {name: path for name, part in FILES.items() for path in paths if part in path.name}


@pytest.fixture(scope="module")
def headers() -> dict[str, Header]:
    return {name: read_header(path) for name, path in found_files().items()}


@pytest.fixture(scope="module")
def read_by_llama() -> dict[str, llama_rule.LlamaVocabulary]:
    return {name: llama_rule.read(path) for name, path in found_files().items()}


@pytest.mark.parametrize(("one", "other"), list(itertools.product(found_files(), repeat=2)))
def test_verdict(one: str, other: str, headers: dict[str, Header]) -> None:
    report = judge(headers[one], headers[other])
    rules = {found.rule for found in report.findings if found.severity == report.verdict}
    same = SAME_TEXT.get(frozenset({one, other}))
    if "bert-bge" in (one, other):
        assert (report.verdict, rules) == (Verdict.INCOMPATIBLE, {Rule.KIND})
        return
    assert report.compatibility is not None
    if one == other:
        assert report.compatibility.verdict == Verdict.COMPATIBLE
    elif same is not None:
        verdict, rule, n_draftable = same
        assert report.compatibility.verdict == verdict
        assert rule in {found.rule for found in report.findings}
        assert report.compatibility.n_draftable == n_draftable
    else:
        assert report.verdict == Verdict.INCOMPATIBLE
        kinds = (
            {Rule.TEXT}
            if {one, other} <= BYTE_PAIR or {one, other} == {"llama-spm", "gemma-3"}
            else {Rule.TOKENIZER, Rule.TEXT}
        )
        assert rules == kinds
        assert report.compatibility.n_draftable < 1000  # tokens that agree by chance


def test_wherever_llama_cpp_accepts_we_do_and_where_we_differ_the_report_says_why(
    headers: dict[str, Header], read_by_llama: dict[str, llama_rule.LlamaVocabulary]
) -> None:
    for one, other in itertools.product(headers, repeat=2):
        if "bert-bge" in (one, other):
            continue  # no model that writes text
        accepted = llama_rule.accepts(read_by_llama[one], read_by_llama[other])
        report = judge(headers[one], headers[other])
        assert not accepted or report.verdict < Verdict.INCOMPATIBLE
        if accepted != (report.verdict == Verdict.COMPATIBLE):
            assert report.findings


@pytest.mark.parametrize("name", found_files())
def test_end_tokens_are_those_of_llama_cpp(
    name: str, headers: dict[str, Header], read_by_llama: dict[str, llama_rule.LlamaVocabulary]
) -> None:
    assert end_tokens(headers[name], vocabulary(headers[name])) == read_by_llama[name].ends
