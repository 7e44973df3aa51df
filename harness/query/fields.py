"""What a question may name: the columns of an export that are stored as they are, each with its place in a line of the history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from harness.interchange.columns import Shape, columns_of
from harness.model import Cell, Result
from harness.report.export import COLUMNS
from harness.store.lines import part_of

LINE = "line"
"""The table of what is read of lines; one of each part has that part's name."""


class Kind(Enum):
    """What values are, as far as comparing them goes."""

    TEXT = "text"
    NUMBER = "a number"
    TRUTH = "true or false"
    ANY = "text, a number, or true or false"  # each value by itself: of options, and of fields with several types
    NULL = "null"


@dataclass(frozen=True)
class Field:
    """A field of a result."""

    name: str
    path: str  # as "measurements.throughput"
    sql_type: str
    kind: Kind
    part: str | None  # where short lines have it; null: in themselves

    @property
    def sql(self) -> str:
        """It, in a line or in its part: an axis that an older harness did not have is what it was for all cells then."""
        stored = ".".join(quoted(part) for part in self.path.split("."))
        places = [f"{LINE}.{stored}"]
        if self.part is not None:
            places.append(f"{quoted(self.part)}.{stored}")
        if (default := _default_of_axis(self.path)) is not None:
            places.append(_literal(default, self.sql_type))
        return f"coalesce({', '.join(places)})"


_TYPES: Mapping[str, tuple[str, Kind]] = {
    "string": ("VARCHAR", Kind.TEXT),
    "int64": ("BIGINT", Kind.NUMBER),
    "float64": ("DOUBLE", Kind.NUMBER),
    "bool": ("BOOLEAN", Kind.TRUTH),
}


def quoted(name: str) -> str:
    """As SQL writes a name."""
    return '"' + name.replace('"', '""') + '"'


def _default_of_axis(path: str) -> bool | int | str | None:
    """None where the field is no axis, or has none."""
    parent, _, name = path.rpartition(".")
    default = Cell.model_fields[name].default if parent == "config" else None
    return default if isinstance(default, bool | int | str) else None


def _literal(value: bool | int | str, sql_type: str) -> str:
    """As SQL writes a value of the type."""
    if sql_type not in ("VARCHAR", "JSON"):
        return json.dumps(value)
    text = json.dumps(value) if sql_type == "JSON" else str(value)
    return "'" + text.replace("'", "''") + f"'::{sql_type}"


def line_columns(fields: Iterable[Field]) -> dict[str, str]:
    """Columns, with their types, that have these fields and nothing else: what is not asked for is not made."""
    tree: dict[str, Any] = {}
    for field in fields:
        *parents, leaf = field.path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = field.sql_type
    return {name: _type(inner) for name, inner in tree.items()}


def _type(inner: Any) -> str:
    if isinstance(inner, str):
        return inner
    return "STRUCT(" + ", ".join(f"{quoted(name)} {_type(each)}" for name, each in inner.items()) + ")"


def _field(name: str, path: str) -> Field | None:
    """None where a result does not store it."""
    shape: Shape | None = columns_of(Result)
    for part in path.split("."):
        shape = shape.get(part) if isinstance(shape, dict) else None
    if shape is None:
        return None
    sql_type, kind = _TYPES.get(shape, ("JSON", Kind.ANY)) if isinstance(shape, str) else ("JSON", Kind.ANY)
    return Field(name, path, sql_type, kind, part_of(path))


_PATHS = {**COLUMNS, "status": "metadata.status"}
"""As the record stores them; in COLUMNS, a property stands for it."""

FIELDS: Mapping[str, Field] = {
    name: field for name, path in _PATHS.items() if (field := _field(name, path)) is not None
}
"""By name."""
