"""JSON schemas as grammars. Whether a text fits is asked of llama.cpp, over SmolLM2's vocabulary."""

from __future__ import annotations

import gc
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import llama_cpp
import pytest

from specdec_cli.errors import GrammarError
from specdec_cli.llama import library
from specdec_cli.llama.grammar import Grammar
from specdec_cli.llama.schema import MAX_BYTES, grammar_from_schema, unenforced_keywords
from specdec_cli.llama.vocabulary import Vocabulary
from tests.gguf_files import smollm2

Fits = Callable[[dict[str, Any], str], bool]


@pytest.fixture(scope="module")
def fits() -> Iterator[Fits]:
    """Whether a text is complete under a schema's grammar."""
    library.start()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(smollm2()).encode(), parameters)
    assert model
    vocabulary = Vocabulary(llama_cpp.llama_model_get_vocab(model))

    def ask(schema: dict[str, Any], text: str) -> bool:
        grammar = Grammar(vocabulary.handle, grammar_from_schema(json.dumps(schema)))
        try:
            for token in [*vocabulary.tokenize(text, add_special=False, parse_special=False), vocabulary.eos]:
                grammar.advance(token)
        except GrammarError:
            return False
        return True

    yield ask
    gc.collect()
    llama_cpp.llama_model_free(model)


def fault(schema: object) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        grammar_from_schema(schema if isinstance(schema, str) else json.dumps(schema))
    assert caught.value.fix
    return caught.value


@pytest.mark.model
def test_an_object_with_required_and_optional_properties(fits: Fits) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    assert fits(schema, '{"name": "Ada", "age": 36}')
    assert fits(schema, '{"name": "Ada"}')
    assert not fits(schema, '{"age": 36}')
    assert not fits(schema, '{"name": "Ada", "age": 36.5}')


@pytest.mark.model
@pytest.mark.parametrize("value", ['say "hi"', "back\\slash", "two\nlines", "😀 é", "tab\t", {"a": [1, None, "\\"]}])
def test_constants_and_property_names_come_out_as_json(fits: Fits, value: object) -> None:
    assert fits({"const": value}, json.dumps(value, ensure_ascii=False))
    if isinstance(value, str):
        schema = {"type": "object", "properties": {value: {"type": "null"}}, "required": [value]}
        assert fits(schema, json.dumps({value: None}, ensure_ascii=False))


@pytest.mark.model
def test_strings_hold_no_raw_line_breaks(fits: Fits) -> None:
    assert fits({"type": "string"}, '"a\\nb"')
    assert not fits({"type": "string"}, '"a\nb"')


@pytest.mark.model
def test_lengths_count(fits: Fits) -> None:
    schema = {"type": "string", "minLength": 2, "maxLength": 4}
    assert [fits(schema, json.dumps("x" * n)) for n in range(6)] == [False, False, True, True, True, False]
    long = {"type": "string", "maxLength": 2_000}
    assert fits(long, json.dumps("x" * 2_000))
    assert not fits(long, json.dumps("x" * 2_001))


@pytest.mark.model
@pytest.mark.parametrize(
    ("low", "high", "right"),
    [(0, 2, "yyyn"), (1, 3, "nyyyn"), (2, 2, "nnyn"), (1, None, "nyyyy"), (0, 0, "yn"), (0, 1, "yyn")],
)
def test_numbers_of_items_count(fits: Fits, low: int, high: int | None, right: str) -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "minItems": low}
    if high is not None:
        schema["maxItems"] = high
    assert "".join("ny"[fits(schema, json.dumps([7] * n))] for n in range(len(right))) == right


@pytest.mark.model
def test_true_and_the_empty_schema_allow_any_value(fits: Fits) -> None:
    for anything in ({}, True, {"description": "whatever"}):
        schema = {"type": "object", "properties": {"x": anything}, "required": ["x"]}
        for value in ("1", '"s"', "[null]", '{"y": 2}'):
            assert fits(schema, f'{{"x": {value}}}')


@pytest.mark.model
def test_a_list_of_types_keeps_what_stands_beside_it(fits: Fits) -> None:
    schema = {"type": ["string", "null"], "maxLength": 2}
    assert [fits(schema, text) for text in ('"ab"', "null", '"abc"', "1")] == [True, True, False, False]
    choice = {"type": ["string", "null"], "enum": ["a", None]}
    assert [fits(choice, text) for text in ('"a"', "null", '"b"')] == [True, True, False]
    assert unenforced_keywords(json.dumps(schema)) == ()


@pytest.mark.model
def test_references_may_be_recursive_and_are_told_apart_by_their_whole_path(fits: Fits) -> None:
    tree = {
        "$defs": {
            "a_node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/a_node"}}},
            "other": {"string": {"type": "integer"}},
            "string": {"type": "boolean"},
        },
        "type": "array",
        "prefixItems": [
            {"$ref": "#/$defs/a_node"},
            {"$ref": "#/$defs/other/string"},
            {"$ref": "#/$defs/string"},
            {"type": "string"},
        ],
    }
    assert fits(tree, '[{"next": {"next": {}}}, 7, true, "s"]')
    assert not fits(tree, '[{"next": 1}, 7, true, "s"]')
    assert not fits(tree, '[{}, true, true, "s"]')


@pytest.mark.model
def test_a_single_all_of_is_what_it_holds(fits: Fits) -> None:
    schema = {"allOf": [{"$ref": "#/$defs/choice"}], "default": "x", "$defs": {"choice": {"enum": ["x", "y"]}}}
    assert fits(schema, '"y"')
    assert not fits(schema, "{}")
    assert "allOf" in fault({"allOf": [{"type": "string"}, {"minLength": 3}]}).why


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("nope", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not an object"),
        ("null", "not an object"),
        (" " * (MAX_BYTES + 1), "the limit is"),
        ({"$ref": "https://example.org/schema.json"}, "nothing is fetched"),
        ({"$ref": "file:///etc/hosts"}, "nothing is fetched"),
        ({"$ref": "other.json#/a"}, "nothing is fetched"),
        ({"$ref": "#/nope"}, "not in it"),
        ({"$ref": "#anchor"}, "an anchor"),
        ({"$ref": "#"}, "left recursion"),
        ({"properties": {"x": {"$ref": "#/properties/x"}}}, "left recursion"),
        ({"type": "text"}, "'text' is not a type"),
        ({"type": []}, "empty type"),
        ({"enum": []}, "empty enum"),
        ({"properties": {"x": False}}, "false stands where"),
        ({"type": "string", "maxLength": 5_000}, "maxLength is 5000"),
        ({"type": "string", "minLength": "x"}, "minLength is x"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2}, "minItems is 3 and maxItems is 2"),
        ({"type": "string", "pattern": "[a-z]"}, 'Pattern must start with "^"'),
        ({"type": "string", "pattern": "^[a-z]{1,900}$"}, "nested parentheses"),
        ({"$dynamicRef": "#a"}, "The converter says"),
        ({"properties": {f"p{i}": {"type": "null"} for i in range(2_000)}}, "too many optional properties"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_its_reason(schema: object, why: str) -> None:
    assert why in fault(schema).why


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", no_network)
    fault({"properties": {"a": {"anyOf": [{"$ref": "https://example.org/schema.json"}]}}})


@pytest.mark.parametrize(
    ("schema", "keywords"),
    [
        ({"type": "integer", "minimum": 3, "title": "n", "default": 4}, ("minimum",)),
        ({"type": "string", "format": "email"}, ("format",)),
        ({"type": "string", "format": "date"}, ()),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}, ("required",)),
        ({"type": "array", "minItems": 2}, ("minItems",)),
        ({"type": "array", "items": {"type": "number", "multipleOf": 2}, "uniqueItems": True}, ("multipleOf", "uniqueItems")),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {}}}}, ("not",)),
        ({"type": "null", "minimum": 3}, ()),
    ],
)
def test_keywords_that_the_grammar_does_not_enforce_are_named(schema: object, keywords: tuple[str, ...]) -> None:
    assert unenforced_keywords(json.dumps(schema)) == keywords
