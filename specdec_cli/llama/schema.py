"""A JSON schema as a grammar, by llama-cpp-python's converter, with what that converter gets wrong put right before and after.

Its faults that matter here: references are known by their last part only; a list of types hides every other keyword; {} and
true become "object"; texts with a quote, a backslash or an emoji come out broken; strings may hold raw line breaks; long
repetitions become as many nested parentheses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from llama_cpp import llama_grammar

from specdec_cli.errors import GrammarError
from specdec_cli.llama.gbnf import MAX_REPEAT, check_grammar

MAX_BYTES = 1_000_000

_Schema = dict[str, Any]
_ANYTHING: _Schema = {"type": "value"}  # the converter's own name for any JSON value
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_FORMATS = re.compile(r"date|time|date-time|uuid[1-5]?")
_CHAR = r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})'
_UNIONS = ("anyOf", "oneOf")
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OF_TYPE = {  # keywords that say nothing about values of other types
    "object": (_OBJECT - {"type"})
    | {"patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"}
    | {"dependentRequired", "dependentSchemas", "dependencies"},
    "array": frozenset({"items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems"})
    | {"uniqueItems", "contains", "minContains", "maxContains"},
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": _OF_NUMBERS,
    "integer": _OF_NUMBERS,
}
_OF_ANY = frozenset({"type", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"})
_ASSERTIONS = (_OF_ANY | {"enum", "const"}).union(*_OF_TYPE.values())


def grammar_from_schema(text: str) -> str:
    """The GBNF grammar of a JSON schema. Nothing is fetched: a $ref must point into the schema itself."""
    schema = _read(text)
    try:
        converter = _Converter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        converter.visit(converter.resolve_refs(_Normaliser(schema).whole(), ""), "")
        grammar = converter.finish()
    except GrammarError:
        raise
    except RecursionError as error:
        raise _too_deep() from error
    except Exception as error:  # the converter asserts and indexes its way through a schema
        raise _refusal(f"The converter says: {_first_line(error)}", "Use a schema without that part.") from error
    try:
        check_grammar(grammar)
    except GrammarError as error:
        raise _refusal(f"Of the grammar made from it: {error.why}", "Make that part smaller or simpler.") from error
    return grammar


def unenforced_keywords(text: str) -> tuple[str, ...]:
    """Keywords of the schema that its grammar does not hold the model to, in alphabetic order."""
    try:
        parts = list(_Normaliser(_read(text)).parts())
    except RecursionError as error:
        raise _too_deep() from error
    return tuple(sorted({keyword for part in parts for keyword in _meant(part) - _enforced(part)}))


def _refusal(why: str, fix: str) -> GrammarError:
    return GrammarError("The JSON schema cannot be used.", why, fix)


def _too_deep() -> GrammarError:
    return _refusal("It is nested too deeply, or an object has too many optional properties.", "Use a flatter schema.")


def _first_line(error: Exception) -> str:
    line = (str(error) or type(error).__name__).splitlines()[0]
    return line if len(line) <= 200 else line[:200] + "..."


def _read(text: str) -> Any:
    if len(text) > MAX_BYTES:
        raise _refusal(f"It has {len(text)} characters; the limit is {MAX_BYTES}.", "Use a smaller schema.")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(f"It is not JSON: {_first_line(error)}", "Check it with: python -m json.tool FILE") from error
    if not isinstance(schema, dict):
        raise _refusal(
            "It is JSON, and not an object.",
            'Write for example: {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}',
        )
    return schema


class _Normaliser:
    """Rewrites a schema into the forms that the converter gets right, with references named part0, part1, ..."""

    def __init__(self, schema: _Schema) -> None:
        self.schema = schema
        self.names: dict[str, str] = {}  # pointer -> name
        self.prefix = "part"
        text = json.dumps(schema, ensure_ascii=False)
        while self.prefix in text:  # no property may bring forth a rule of that name
            self.prefix += "x"

    def parts(self) -> Iterator[_Schema]:
        """The rewritten schema with everything in it, and everything that is referred to, each once."""
        waiting = [self.part(self.schema)]
        n_named = 0
        while waiting:
            part = waiting.pop()
            yield part
            waiting.extend(child for child in _children(part) if isinstance(child, dict))
            if not waiting:
                waiting.extend(self._target(pointer) for pointer in list(self.names)[n_named:])
                n_named += len(waiting)

    def whole(self) -> _Schema:
        root = dict(self.part(self.schema))
        definitions: _Schema = {}
        while len(definitions) < len(self.names):
            for pointer, name in list(self.names.items())[len(definitions) :]:
                definitions[name] = self._target(pointer)
        return {**root, "$defs": definitions}

    def part(self, schema: Any) -> _Schema:
        if schema is True:
            return _ANYTHING
        if not isinstance(schema, dict):
            raise _refusal(f"{json.dumps(schema)[:80]} stands where a schema belongs.", "Write an object there.")
        if isinstance(reference := schema.get("$ref"), str):
            return {**schema, "$ref": f"#/$defs/{self._name(reference)}"}
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind] if kind is not None else []
        for name in kinds:
            if name not in _TYPES:
                raise _refusal(f"{name!r} is not a type.", f"The types are {', '.join(sorted(_TYPES))}.")
        if not _ASSERTIONS & schema.keys():
            return _ANYTHING
        for key in ("type", "enum", *_UNIONS):
            if schema.get(key) == []:
                raise _refusal(f"An empty {key} allows nothing.", "Give it a member, or leave it out.")
        joined = schema.get("allOf")
        if isinstance(joined, list) and len(joined) == 1 and len(_ASSERTIONS & schema.keys()) == 1:
            return self.part(joined[0])
        rest = {key: value for key, value in schema.items() if key != "type"}
        if isinstance(kind, list):
            if rest.keys() & {"const", "enum", *_UNIONS}:
                return self.part(rest)
            return {"anyOf": [self.part({**rest, "type": name}) for name in kinds]}
        return {key: self._value(key, value) for key, value in schema.items()}

    def _value(self, key: str, value: Any) -> Any:
        if key == "properties" and isinstance(value, dict):
            return {name: self.part(schema) for name, schema in value.items()}
        if key in ("anyOf", "oneOf", "allOf", "prefixItems", "items") and isinstance(value, list):
            return [self.part(schema) for schema in value]
        if key == "items" or (key == "additionalProperties" and value is not False):
            return self.part(value)
        return value

    def _name(self, pointer: str) -> str:
        if pointer not in self.names:
            self._find(pointer)
            self.names[pointer] = f"{self.prefix}{len(self.names)}"
        return self.names[pointer]

    def _find(self, pointer: str) -> Any:
        if not pointer.startswith("#"):
            raise _refusal(
                f"It refers to {pointer!r}, and nothing is fetched.", 'Put the definition under "$defs" in the schema.'
            )
        if pointer[1:2] not in ("", "/"):
            raise _refusal(f"It refers to {pointer!r}, an anchor.", 'Refer by path, as "#/$defs/name".')
        found: Any = self.schema
        for step in pointer[2:].split("/") if pointer[1:] else ():
            key: Any = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise _refusal(f"It refers to {pointer!r}, which is not in it.", 'Add the definition under "$defs".')
        return found

    def _target(self, pointer: str) -> _Schema:
        return self.part(self._find(pointer))


def _children(part: _Schema) -> Iterator[Any]:
    properties = part.get("properties")
    yield from properties.values() if isinstance(properties, dict) else ()
    for key in ("anyOf", "oneOf", "allOf", "prefixItems", "items"):
        value = part.get(key)
        yield from value if isinstance(value, list) else (value,)
    yield part.get("additionalProperties")


def _meant(part: _Schema) -> frozenset[str]:
    """The part's keywords that forbid something: those about another type than its own do not."""
    kind = part.get("type")
    others = [keywords for name, keywords in _OF_TYPE.items() if name != kind] if kind in _TYPES else []
    return (_ASSERTIONS & part.keys()).difference(*others) | (_OF_TYPE.get(str(kind), frozenset()) & part.keys())


def _enforced(part: _Schema) -> frozenset[str] | set[str]:
    """The keywords that the converter looks at: it takes the first of these forms that fits."""
    if "$ref" in part:
        return {"$ref"}
    for union in _UNIONS[::-1]:
        if union in part:
            return {union}
    for values in ("const", "enum"):
        if values in part:
            return {values, "type"}
    kind = part.get("type")
    if kind in (None, "object"):
        if "properties" in part or "additionalProperties" in part:
            missing = set(part.get("required", ())) - set(part.get("properties", ()))
            return _OBJECT - {"required"} if missing else _OBJECT
        if "allOf" in part:
            return {"type", "allOf"}
    if kind in (None, "array") and ("items" in part or "prefixItems" in part):
        if isinstance(part.get("items"), dict):
            return {"type", "items", "minItems", "maxItems"}
        return {"type", "items" if "items" in part else "prefixItems"}
    if kind in (None, "string"):
        if "pattern" in part:
            return {"type", "pattern"}
        if isinstance(part.get("format"), str) and _FORMATS.fullmatch(part["format"]):
            return {"type", "format"}
        if kind == "string":
            return {"type", "minLength", "maxLength"}
    return {"type"}


class _Converter(llama_grammar.SchemaConverter):  # type: ignore[misc]
    def visit(self, schema: _Schema, name: str) -> str:
        kind = schema.get("type")
        if kind == "string" and _enforced(schema) >= {"minLength"} and schema.keys() & {"minLength", "maxLength"}:
            char = self._add_primitive("char", llama_grammar.PRIMITIVE_RULES["char"])
            times = _times(schema, "minLength", "maxLength", 0)
            return self._named(name, rf'"\"" {char}{times} "\"" space')
        if _enforced(schema) >= {"items", "maxItems"} and schema.keys() & {"minItems", "maxItems"}:
            item = self.visit(schema["items"], f"{name}{'-' if name else ''}item")
            if schema.get("maxItems") == 0:
                return self._named(name, '"[" space "]" space')
            items = f'{item} ("," space {item}){_times(schema, "minItems", "maxItems", 1)}'
            return self._named(name, f'"[" space {items if schema.get("minItems") else f"({items})?"} "]" space')
        if "allOf" in _enforced(schema):
            self._check_joined(schema["allOf"])
        found: str = super().visit(schema, name)
        return found

    def _check_joined(self, members: list[_Schema]) -> None:
        for member in (inner for outer in members for inner in outer.get("anyOf", [outer])):
            if "properties" not in self._refs.get(member.get("$ref"), member):
                raise _refusal("An allOf holds more than objects with properties.", "Write what it allows as one schema.")

    def finish(self) -> str:
        if "char" in self._rules:
            self._rules["char"] = _CHAR
        grammar: str = self.format_grammar()
        return grammar

    def _named(self, name: str, rule: str) -> str:
        reserved = name in llama_grammar.RESERVED_NAMES
        key: str = self._add_rule(f"{name}-" if reserved else name or "root", rule)
        return key

    def _format_literal(self, literal: str) -> str:
        """literal: a value as JSON text."""
        text = json.dumps(json.loads(literal), ensure_ascii=False)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _times(schema: _Schema, low_key: str, high_key: str, n_written: int) -> str:
    low, high = schema.get(low_key, 0), schema.get(high_key)
    for key, value in ((low_key, low), (high_key, high)):
        if value is not None and (not isinstance(value, int) or not 0 <= value <= MAX_REPEAT):
            raise _refusal(f"{key} is {value}; llama.cpp's grammars count from 0 to {MAX_REPEAT}.", f"Change {key}.")
    if high is not None and high < low:
        raise _refusal(f"{low_key} is {low} and {high_key} is {high}.", "Exchange them.")
    return f"{{{max(low - n_written, 0)},{'' if high is None else high - n_written}}}"
