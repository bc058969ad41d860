"""Grammars over SmolLM2's vocabulary. Anything that might end or hang the process runs in one of its own."""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
import sys
from collections.abc import Iterator

import llama_cpp
import numpy as np
import numpy.typing as npt
import pytest

from specdec_cli.errors import GrammarError
from specdec_cli.llama import library
from specdec_cli.llama.grammar import Grammar
from specdec_cli.llama.vocabulary import Vocabulary
from tests.gguf_files import smollm2

pytestmark = pytest.mark.model

EMOJI = "😀漢字é👩‍👩‍👧"


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[Vocabulary]:
    library.start()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(smollm2()).encode(), parameters)
    assert model
    yield Vocabulary(llama_cpp.llama_model_get_vocab(model))
    gc.collect()
    llama_cpp.llama_model_free(model)


def everything(vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    return np.arange(vocabulary.n_tokens)


def legal(grammar: Grammar, vocabulary: Vocabulary) -> list[int]:
    ids = everything(vocabulary)
    return [int(token) for token in ids[grammar.allowed(ids)]]


def pieces(grammar: Grammar, vocabulary: Vocabulary) -> set[bytes]:
    return {vocabulary.piece(token) for token in legal(grammar, vocabulary)}


def take(grammar: Grammar, vocabulary: Vocabulary, text: str) -> None:
    for token in vocabulary.tokenize(text, add_special=False, parse_special=False):
        grammar.advance(token)


def token_of(vocabulary: Vocabulary, text: str) -> int:
    (token,) = vocabulary.tokenize(text, add_special=False, parse_special=False)
    return token


def test_only_tokens_that_fit_may_follow(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, 'root ::= "{" "}"')
    assert pieces(grammar, vocabulary) == {b"{", b"{}"}
    grammar.advance(token_of(vocabulary, "{"))
    assert pieces(grammar, vocabulary) == {b"}"}


def test_a_block_of_candidates_is_judged_as_the_whole_vocabulary_is(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, "root ::= [0-9]+")
    whole = grammar.allowed(everything(vocabulary))
    ids = np.array([token_of(vocabulary, text) for text in ("7", "a", "0", " ")])
    assert grammar.allowed(ids).tolist() == [True, False, True, False]
    assert whole[ids].tolist() == [True, False, True, False]
    assert grammar.allowed(ids[:0]).tolist() == []


def test_a_complete_text_may_only_end(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, 'root ::= "{" "}"')
    take(grammar, vocabulary, "{}")
    assert set(legal(grammar, vocabulary)) == vocabulary.end_tokens
    ids = everything(vocabulary)
    assert not grammar.allowed(ids[~np.isin(ids, list(vocabulary.end_tokens))]).any()


def test_after_an_end_token_nothing_may_follow(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, "root ::= [0-9]*")
    grammar.advance(vocabulary.eos)
    assert legal(grammar, vocabulary) == []
    assert legal(grammar.copy(), vocabulary) == []
    with pytest.raises(GrammarError):
        grammar.advance(vocabulary.eos)


def test_a_token_that_does_not_fit_is_an_error_and_changes_nothing(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, 'root ::= "{" "}"')
    for token in (token_of(vocabulary, "}"), vocabulary.eos, -1, vocabulary.n_tokens, 2**40):
        with pytest.raises(GrammarError):
            grammar.advance(token)
    assert pieces(grammar, vocabulary) == {b"{", b"{}"}


def test_ids_outside_the_vocabulary_may_not_follow(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, "root ::= .*")
    assert grammar.allowed(np.array([-1, 2**40, vocabulary.n_tokens, token_of(vocabulary, "a")])).tolist() == [
        *[False] * 3,
        True,
    ]


def test_control_tokens_do_not_pass_for_their_spelling(vocabulary: Vocabulary) -> None:
    (start,) = vocabulary.tokenize("<|im_start|>", add_special=False, parse_special=True)
    grammar = Grammar(vocabulary.handle, "root ::= .*")
    assert not grammar.allowed(np.array([start]))[0]
    with pytest.raises(GrammarError):
        grammar.advance(start)
    take(grammar, vocabulary, "<|im_start|>")


def test_copies_go_their_own_ways_and_outlive_their_parent(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, 'root ::= "a" ("b" | "c") "d"')
    take(grammar, vocabulary, "a")
    first, second = grammar.copy(), grammar.copy()
    take(first, vocabulary, "b")
    assert pieces(first, vocabulary) == {b"d"}
    assert b"c" in pieces(grammar, vocabulary)
    del grammar
    gc.collect()
    take(second, vocabulary, "c")
    assert pieces(second, vocabulary) == {b"d"}
    third = second.copy()
    del second, first
    gc.collect()
    take(third, vocabulary, "d")
    assert set(legal(third, vocabulary)) == vocabulary.end_tokens


@pytest.mark.parametrize("seed", range(8))
def test_every_legal_way_through_emoji_spells_exactly_them(vocabulary: Vocabulary, seed: int) -> None:
    """Characters are spread over tokens that hold parts of them; copies halfway through one are as good."""
    choice = random.Random(seed)
    grammar = Grammar(vocabulary.handle, f'root ::= "{EMOJI}"')
    said, wanted = b"", EMOJI.encode()
    while said != wanted:
        found = legal(grammar, vocabulary)
        assert all(wanted[len(said) :].startswith(vocabulary.piece(token)) for token in found)
        token = choice.choice(found)
        if choice.random() < 0.5:
            grammar = grammar.copy()
        grammar.advance(token)
        said += vocabulary.piece(token)
    assert set(legal(grammar, vocabulary)) == vocabulary.end_tokens


def test_a_character_class_accepts_what_tokens_hold_only_a_part_of(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, "root ::= [漢字]+")
    take(grammar, vocabulary, "漢字字")
    with pytest.raises(GrammarError):
        take(grammar.copy(), vocabulary, "語")
    assert vocabulary.eos in legal(grammar, vocabulary)


def test_the_root_rule_can_have_another_name(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary.handle, 'answer ::= "yes"\nroot ::= "no"', root="answer")
    assert b"yes" in pieces(grammar, vocabulary)
    assert b"no" not in pieces(grammar, vocabulary)


def test_a_faulty_grammar_does_not_reach_llama_cpp(vocabulary: Vocabulary, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(GrammarError):
        Grammar(vocabulary.handle, 'root ::= "a')
    assert capfd.readouterr().err == ""


def test_native_memory_is_given_back(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[object] = []
    free = llama_cpp.llama_sampler_free

    def counted(pointer: object) -> None:
        freed.append(pointer)
        free(pointer)

    monkeypatch.setattr(llama_cpp, "llama_sampler_free", counted)
    grammar = Grammar(vocabulary.handle, 'root ::= "a"')
    copies = [grammar.copy() for _ in range(5)]
    copies[0].allowed(np.array([1]))
    del grammar, copies
    gc.collect()
    assert len(freed) == 6


LOAD = """
import sys
import llama_cpp
from specdec_cli.errors import GrammarError
from specdec_cli.llama import grammar, library
library.start()
parameters = llama_cpp.llama_model_default_params()
parameters.vocab_only = True
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), parameters)
vocabulary = llama_cpp.llama_model_get_vocab(model)
"""

HOSTILE = """
hostile = [
    'root ::= ' + '(' * 100000 + '"a"' + ')' * 100000,
    'root ::= a0\\n' + '\\n'.join(f'a{i} ::= a{i + 1}' for i in range(100000)) + '\\na100000 ::= "x"',
    'root ::= a0\\n' + '\\n'.join(f'a{i} ::= a{i + 1} "p" | a{i + 1} "q"' for i in range(40)) + '\\na40 ::= "x"',
    'root ::= "a"{5,3}',
    'root ::= "a"{0,1000000}',
    'e ::= f\\nf ::= "x" | ""\\nroot ::= e root "z" | "y"',
    'e ::= f\\nf ::= ""\\nroot ::= e root',
    'root ::= root',
    'root ::= "a" !<[5]>',
    '',
]
for text in hostile:
    try:
        grammar.Grammar(vocabulary, text)
    except GrammarError:
        print("refused")
"""

AMBIGUOUS = """
import ctypes
grammar.STEP_LIMIT_S = 0.3
ids = (ctypes.c_int32 * 4)()
assert llama_cpp.llama_tokenize(vocabulary, b"x", 1, ids, 4, False, False) == 1
made = grammar.Grammar(vocabulary, 'root ::= a\\na ::= "x" a "y" | "x" a "z" | ""')
try:
    for _ in range(100):
        made.advance(ids[0])
except GrammarError as error:
    print(error.what)
try:
    made.copy()
except GrammarError as error:
    print(error.what)
"""


def run_apart(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD + script, str(smollm2())], capture_output=True, timeout=120, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_grammars_that_would_end_or_hang_the_process_are_refused() -> None:
    assert run_apart(HOSTILE) == ["refused"] * 10


def test_a_step_that_does_not_end_is_an_error_and_the_process_goes_on() -> None:
    assert run_apart(AMBIGUOUS) == ["The grammar has too many readings to go on with."] * 2


def test_the_candidate_record_is_laid_out_as_llama_cpp_lays_it_out() -> None:
    from specdec_cli.llama.grammar import _CANDIDATE

    assert _CANDIDATE.itemsize == ctypes.sizeof(llama_cpp.llama_token_data)
    fields = _CANDIDATE.fields
    assert fields is not None
    assert [fields[name][1] for name in ("id", "logit", "p")] == [
        getattr(llama_cpp.llama_token_data, name).offset for name in ("id", "logit", "p")
    ]
