"""A talk as JSON values and back, every type checked: the schema of a session's file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from specdec_cli.chat.talk import Document, Figures, ModelName, Talk, Turn
from specdec_cli.decoding.contracts import FinishReason

SCHEMA = "specdec.chat/1"
_FAMILY = "specdec.chat/"
_COUNTS = {f.name for f in dataclasses.fields(Figures) if f.name.startswith("n_")}
_RATES = {f.name for f in dataclasses.fields(Figures)} - _COUNTS

Parsed = tuple[Talk, dict[str, object], tuple[ModelName, ...], str, str]


def dump(
    talk: Talk, settings: Mapping[str, object], models: tuple[ModelName, ...], created: str, changed: str
) -> dict[str, object]:
    """Everything but the schema's name."""
    return {
        "created": created,
        "changed": changed,
        "settings": dict(settings),
        "models": [dataclasses.asdict(model) for model in models],
        "system": talk.system,
        "n_dropped": talk.n_dropped,
        "turns": [dataclasses.asdict(turn) | {"finish": turn.finish.value} for turn in talk.turns],
    }


def parse(found: object) -> Parsed:
    """What dump() made. Raises ValueError with a sentence that says what is wrong, and where."""
    if not isinstance(found, dict):
        raise ValueError("It holds no JSON object.")
    schema = found.get("schema")
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(_FAMILY):
            raise ValueError(f"It was written by another version of specdec ({schema}); this one reads {SCHEMA}.")
        raise ValueError(f'It is not a chat: its "schema" is not {SCHEMA}.')
    top = _Object(found, "", {"schema", "created", "changed", "settings", "models", "system", "n_dropped", "turns"})
    turns = tuple(_turn(_Object(turn, f"turns[{i}]", _TURN)) for i, turn in enumerate(top.items("turns")))
    n_dropped = top.count("n_dropped")
    if n_dropped > len(turns):
        raise ValueError(f'"n_dropped" is {n_dropped}, and there are {len(turns)} turns.')
    system = None if found.get("system") is None else top.text("system")
    settings = found.get("settings")
    if not isinstance(settings, dict):
        raise ValueError('"settings" is not an object.')
    return Talk(system, turns, n_dropped), settings, _models(top), top.text("created"), top.text("changed")


class _Object:
    """An object of the file, and where in it. Keys that nobody knows are refused: a later save would lose them."""

    def __init__(self, found: object, where: str, keys: set[str]) -> None:
        self._at = f"{where}." if where else ""
        if not isinstance(found, dict):
            raise ValueError(f'"{where}" is not an object.')
        self._found: dict[str, Any] = found
        if unknown := sorted(set(found) - keys):
            raise ValueError(f'"{self._at}{unknown[0][:80]}" is no key of {SCHEMA}; a later version may have written it.')
        if missing := sorted(keys - set(found)):
            raise ValueError(f'"{self._at}{missing[0]}" is missing.')

    def text(self, key: str) -> str:
        return self._checked(key, lambda value: isinstance(value, str), "text")  # type: ignore[no-any-return]

    def count(self, key: str) -> int:
        return self._checked(key, _is_count, "a count")  # type: ignore[no-any-return]

    def items(self, key: str) -> list[Any]:
        return self._checked(key, lambda value: isinstance(value, list), "a list")  # type: ignore[no-any-return]

    def rate(self, key: str) -> float | None:
        return self._checked(key, _is_rate, "a number or null")  # type: ignore[no-any-return]

    def ids(self, key: str) -> tuple[int, ...]:
        found = self.items(key)
        if not all(_is_count(value) for value in found):
            raise ValueError(f'"{self._at}{key}" holds something else than token ids.')
        return tuple(found)

    def object(self, key: str, keys: set[str]) -> _Object:
        return _Object(self._found[key], f"{self._at}{key}", keys)

    def objects(self, key: str, keys: set[str]) -> list[_Object]:
        return [_Object(value, f"{self._at}{key}[{i}]", keys) for i, value in enumerate(self.items(key))]

    def finish(self, key: str) -> FinishReason:
        text = self.text(key)
        if text not in set(FinishReason):
            raise ValueError(f'"{self._at}{key}" is {text[:80]!r}, which no answer ends with.')
        return FinishReason(text)

    def _checked(self, key: str, holds: Callable[[Any], bool], what: str) -> Any:
        value = self._found[key]
        if not holds(value):
            raise ValueError(f'"{self._at}{key}" is not {what}.')
        return value


_TURN = {field.name for field in dataclasses.fields(Turn)}


def _turn(turn: _Object) -> Turn:
    documents = turn.objects("documents", {"name", "text"})
    return Turn(
        question=turn.text("question"),
        documents=tuple(Document(document.text("name"), document.text("text")) for document in documents),
        answer=turn.text("answer"),
        thinking=turn.text("thinking"),
        ids=turn.ids("ids"),
        finish=turn.finish("finish"),
        models=_models(turn),
        figures=_figures(turn.object("figures", _COUNTS | _RATES)),
        seed=turn.count("seed"),
        at=turn.text("at"),
    )


def _figures(figures: _Object) -> Figures:
    counts = {key: figures.count(key) for key in _COUNTS}
    rates: dict[str, Any] = {key: figures.rate(key) for key in _RATES}
    return Figures(**counts, **rates)


def _models(owner: _Object) -> tuple[ModelName, ...]:
    found = owner.objects("models", {"role", "label", "n_bytes"})
    return tuple(ModelName(model.text("role"), model.text("label"), model.count("n_bytes")) for model in found)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_rate(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value))
