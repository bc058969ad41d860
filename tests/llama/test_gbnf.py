"""The check that a grammar passes before llama.cpp sees it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import GrammarError
from specdec_cli.llama import gbnf, gbnf_rules
from specdec_cli.llama.gbnf import check_grammar


def fault(text: str, root: str = "root") -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        check_grammar(text, root)
    return caught.value


def doubling(n: int) -> str:
    """Rules each of which begins with the next one in two ways."""
    return "\n".join(["root ::= a0", *(f'a{i} ::= a{i + 1} "p" | a{i + 1} "q"' for i in range(n)), f'a{n} ::= "x"'])


def chain(n: int) -> str:
    return "\n".join(["root ::= a0", *(f"a{i} ::= a{i + 1}" for i in range(n)), f'a{n} ::= "x"'])


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "{" "}"',
        "root ::= [0-9]+",
        'root ::= "😀漢字é👩‍👩‍👧"',
        "root ::= ",
        'root ::= ""',
        'root ::= "a" |\n  "b" # the other\n\n# done\n',
        'root ::= (\n "a"\n | "b"\n)\n',
        'root ::= "a"{2} "b"{1,} "c"{ 0 , 3 } [^\\]\\-x]? .',
        'root ::= "\\x41\\u00e9\\U0001F600\\n\\"\\\\" [a-] [--/] []',
        "root ::= (" + '"a"*' + ")*",
        'root ::= item ("," item)*\r\nitem ::= [a-z]+\r\n',
        'root ::= "(" root ")" | "x"',
        'root ::= "a" root',
    ],
)
def test_grammars_that_llama_cpp_can_take_pass(text: str) -> None:
    check_grammar(text)


@pytest.mark.parametrize("text", ["", "  \n", "# nothing but words\n"])
def test_an_empty_grammar_is_refused(text: str) -> None:
    assert "empty" in fault(text).why


def test_the_root_rule_must_be_there_under_its_name() -> None:
    assert "'root'" in fault('start ::= "a"').why
    check_grammar('start ::= "a"', root="start")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("root ::= thing", "'thing' is used and not defined"),
        ('root ::= "a"\nroot ::= "b"', "Line 2, column 1: rule 'root' is defined a second time"),
        ('root ::= "a', 'Line 1, column 10: the " that begins here has no end'),
        ("root ::= [a", "the [ that begins here has no end"),
        ('root ::= "a\\', "is not an escape"),
        ('root ::= "\\q"', "'\\\\q' is not an escape"),
        ('root ::= "\\u12"', "is not an escape"),
        ("root ::= [\\d]", "Line 1, column 11: '\\\\d' is not an escape"),
        ('root ::= ("a"', "')' is expected, not 'the end'"),
        ('root ::= "a")', "')' is not expected here"),
        ('root ::= "a"\n  | "b"', "Line 2, column 3: a line cannot begin with '|'"),
        ("root ::= 'a'", '"\'" is not expected here'),
        ('root = "a"', "'::=' is expected after 'root'"),
        ('my_rule ::= "a"', "cannot hold '_'"),
        ("root ::= *", "there is nothing to repeat"),
        ('root ::= ""+', "there is nothing to repeat"),
        ('root ::= "a"{x}', "this repetition cannot be read"),
        ('root ::= "a"{1', "this repetition cannot be read"),
        ("root ::= <[5]>", "references to tokens"),
        ("root ::= !<|im_end|>", "references to tokens"),
        ('root ::= "a\0b"', "NUL"),
        ('root ::= "\ud83d"', "not valid Unicode"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, why: str) -> None:
    error = fault(text)
    assert why in error.why
    assert error.fix


@pytest.mark.parametrize(
    "text",
    [
        "root ::= root",
        'root ::= root "a" | "a"',
        'root ::= a\na ::= b "x"\nb ::= a | "y"',
        'root ::= "a"? root "z" | "y"',
        'root ::= (("x")?) root "z" | "y"',  # the empty beginning is two rules away: llama.cpp does not see it
        'e ::= f\nf ::= "x" | ""\nroot ::= e root "z" | "y"',
        'x ::= "a" | ""\nroot ::= x*',
    ],
)
def test_left_recursion_is_found_behind_what_may_be_empty(text: str) -> None:
    assert "left recursion" in fault(text).why


def test_a_rule_that_matches_no_text_at_all_is_refused() -> None:
    assert "can match no text" in fault('e ::= f\nf ::= ""\nroot ::= e root').why


def test_limits_on_size_depth_and_repetition() -> None:
    assert "nested parentheses" in fault("root ::= " + "(" * 100_000).why
    check_grammar("root ::= " + "(" * gbnf.MAX_DEPTH + '"a"' + ")" * gbnf.MAX_DEPTH)
    assert "repetitions" in fault('root ::= "a"{1000000}').why
    assert "repetitions" in fault('root ::= "a"{0,2001}').why
    assert "repetitions" in fault('root ::= "a"{' + "9" * 10_000 + "}").why
    check_grammar('root ::= "a"{0002000}')
    assert "below its beginning" in fault('root ::= "a"{5,3}').why
    assert "multiply" in fault('root ::= "a"{40}{60}').why
    assert "multiply" in fault('root ::= ("a"{0,100}){0,100}').why
    assert "elements" in fault('root ::= "' + "a" * 1_000 + '"{1000}').why
    assert "bytes" in fault("# " + "é" * gbnf.MAX_BYTES).why


def test_limits_on_the_ways_in_which_a_rule_begins() -> None:
    check_grammar(doubling(8))
    assert "begin" in fault(doubling(40)).why
    check_grammar(chain(1_000))
    assert "begins with rules" in fault(chain(gbnf_rules.MAX_CHAIN + 1)).why
    words = " | ".join(f'"w{i}"' for i in range(gbnf_rules.MAX_STARTS + 1))
    assert "more than" in fault(f"root ::= {words}").why


def test_comment_signs_without_end_do_not_stall_the_reader() -> None:
    assert "repetition" in fault('root ::= "a"{' + "#" * 50_000).why


@given(st.text(alphabet='ab"[]()|*+?{}0129,:= \n\r\\x#-^.<!_é', max_size=60))
def test_any_text_passes_or_is_a_grammar_error(text: str) -> None:
    with contextlib.suppress(GrammarError):
        check_grammar("root ::= " + text)
