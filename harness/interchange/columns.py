"""The columns of a dataset, following the records' own types: a new field is a new column the day it is added.

A mapping is text of JSON: its names differ from row to row, and `datasets` wants one type for each column.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.model import Record

Shape = str | list["Shape"] | dict[str, "Shape"]
"""A type of `datasets` (`string`, `int64`, `float64`, `bool`), a list of such, or fields by name; and JSON."""

Columns = dict[str, Shape]

JSON = "json"
"""Text of JSON."""

_PLAIN: Mapping[Any, str] = {str: "string", int: "int64", float: "float64", bool: "bool"}


def columns_of(kind: type[Record]) -> Columns:
    """Of a record, by field."""
    return {name: _shape(info.annotation) for name, info in kind.model_fields.items()}


def plain(value: Any, shape: Shape) -> Any:
    """A JSON value in a column's shape: every field there, null where unknown."""
    if value is None:
        return None
    if isinstance(shape, list):
        return [plain(item, shape[0]) for item in value]
    if isinstance(shape, dict):
        return {name: plain(value.get(name), inner) for name, inner in shape.items()}
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if shape == JSON else value


def features(columns: Columns) -> list[dict[str, Any]]:
    """As the card of a dataset declares them, so that a column of nulls has a type too."""
    return [{"name": name, **_feature(shape)} for name, shape in columns.items()]


def merged(stored: Sequence[Any], ours: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Features of a card with ours in their place: what only the card has (of a newer harness, of other people) stays."""
    by_name = {each["name"]: each for each in ours}
    known = {each["name"] for each in _named(stored)}
    kept = [_one_of_both(each, by_name[each["name"]]) if each["name"] in by_name else each for each in _named(stored)]
    return [*kept, *(each for name, each in by_name.items() if name not in known)]


def _one_of_both(stored: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """A feature; where it has fields on both sides, all of them."""
    inner = {
        kind: merged(stored[kind], ours[kind])
        for kind in ("struct", "list")
        if isinstance(stored.get(kind), list) and isinstance(ours.get(kind), list)
    }
    return {**ours, **inner}


def _named(stored: Sequence[Any]) -> Iterator[Any]:
    """Without what is no feature: people write cards by hand."""
    return (each for each in stored if isinstance(each, Mapping) and "name" in each)


def _feature(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, dict):
        return {"struct": features(shape)}
    if isinstance(shape, list):
        return {"list": _items(shape[0])}
    return {"dtype": "string" if shape == JSON else shape}


def _items(shape: Shape) -> Any:
    feature = _feature(shape)
    return feature.get("struct") or feature.get("dtype") or feature


def _shape(annotation: Any) -> Shape:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        known = [part for part in parts if part is not types.NoneType]
        return _shape(known[0]) if len(known) == 1 else JSON
    if origin is typing.Annotated:
        return _shape(parts[0])
    if origin is list:
        return [_shape(parts[0])]
    if origin is typing.Literal:
        return "string"
    return _shape_of_class(annotation) if isinstance(annotation, type) else JSON


def _shape_of_class(kind: type) -> Shape:
    if issubclass(kind, Record):
        return columns_of(kind)
    return "string" if issubclass(kind, enum.StrEnum) else _PLAIN.get(kind, JSON)
