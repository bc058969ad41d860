"""Frozen dataclasses to JSON and back; what comes back is checked against the fields' types."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_PLAIN = frozenset({str, int, bool, type(None)})


class BadRecord(ValueError):
    """A document that does not have the form it should: where, and what is wrong there."""


def to_json(value: Any) -> Any:
    """The value as JSON's own types. Fields become keys."""
    if type(value) in _PLAIN:  # most are
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_json(kind: type[T], value: Any, where: str) -> T:
    """A dataclass from a JSON object. Keys that it does not know are left out. Raises BadRecord."""
    if not isinstance(value, dict):
        raise BadRecord(f"{where} is no object")
    hints, found = _hints(kind), {}  # type: ignore[arg-type]
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name in value:
            found[field.name] = _checked(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BadRecord(f"{where} has no {field.name}")
    return kind(**found)


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _checked(kind: Any, value: Any, where: str) -> Any:
    """One value, as its type asks for it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _checked(next(each for each in inner if each is not type(None)), value, where)
    if origin is tuple and isinstance(value, list):
        return _items(inner, value, where)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, dict):
        return {key: _checked(inner[1], each, f"{where}.{key}") for key, each in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return from_json(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise BadRecord(f"{where} is {value!r}, not one of {', '.join(kind)}")
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise BadRecord(f"{where} is too large") from None
    if not isinstance(kind, type) or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadRecord(f"{where} is {str(value)[:40]!r}, not {getattr(kind, '__name__', kind)}")
    return value


def _items(inner: tuple[Any, ...], values: list[Any], where: str) -> tuple[Any, ...]:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_checked(inner[0], each, f"{where}[{i}]") for i, each in enumerate(values))
    if len(inner) != len(values):
        raise BadRecord(f"{where} has {len(values)} values, not {len(inner)}")
    return tuple(_checked(kind, each, f"{where}[{i}]") for i, (kind, each) in enumerate(zip(inner, values, strict=True)))
