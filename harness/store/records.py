"""Records as text and back: one line for the history, indented for people; a file that is none of ours is refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from harness.model import SCHEMA_VERSION, HarnessError, ImportedResult, LaunchRecord, Result
from harness.store.durable import explained
from harness.store.upgrades import upgraded

Stored = TypeVar("Stored", Result, LaunchRecord, ImportedResult)
Run = dict[str, Result]
"""A run's file: results of one run and one model by key."""


def to_line(result: Result) -> bytes:
    """One line of JSON in UTF-8, newline included, the schema version first.

    Read back here: a line that a later reader refused would lock the whole history. Raises HarnessError.
    """
    line = _json(result).encode() + b"\n"
    try:
        Result.model_validate_json(line)
    except ValidationError as error:
        raise HarnessError(f"the result of {result.key} cannot be stored as JSON: {_first(error)}") from None
    return line


def to_text(record: Result | LaunchRecord | ImportedResult) -> str:
    """Indented JSON."""
    return indented(json.loads(_json(record))) + "\n"


def run_to_text(run: Run) -> str:
    """Indented JSON: {key: {schema_version, metadata, measurements, config}}."""
    return indented({key: json.loads(_json(result, exclude={"key"})) for key, result in run.items()}) + "\n"


def parse(kind: type[Stored], text: bytes, where: str) -> Stored:
    """The record in a text, brought up to this schema. Raises HarnessError naming `where` when it is none, or of a newer one."""
    try:
        record = kind.model_validate_json(text)
    except ValidationError as error:
        return _parse_older(kind, text, where, error)
    return record if record.schema_version == SCHEMA_VERSION else _parse_older(kind, text, where)


def read(kind: type[Stored], path: Path) -> Stored:
    """The record in a file."""
    return parse(kind, _bytes(path), str(path))


def indented(value: Any, margin: str = "") -> str:
    """JSON of two spaces a level, but a list of numbers, unknown ones among them, on one line: they must not fill screens."""
    inner = margin + "  "
    if isinstance(value, Mapping) and value:
        items = [f"{json.dumps(name, ensure_ascii=False)}: {indented(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{margin}}}"
    if isinstance(value, list) and not all(item is None or isinstance(item, (int, float)) for item in value):
        return "[\n" + ",\n".join(inner + indented(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value, ensure_ascii=False)


def _json(record: Result | LaunchRecord | ImportedResult, exclude: set[str] | None = None) -> str:
    """Compact JSON. What JSON has no word for (NaN, infinity) becomes null: unknown."""
    try:
        return record.model_dump_json(exclude=exclude)
    except PydanticSerializationError as error:
        raise HarnessError(f"a {type(record).__name__} cannot be stored as JSON: {error}") from None


def _bytes(path: Path) -> bytes:
    with explained(path):
        return path.read_bytes()


def _parse_older(kind: type[Stored], text: bytes, where: str, error: ValidationError | None = None) -> Stored:
    """Of an older schema, or a HarnessError with the plainest true sentence: encoding, syntax, shape, version, the first field."""
    stored = _mapping(text, where)
    version = stored.get("schema_version")
    check_version(version, where)
    if not isinstance(version, int) or not 1 <= version < SCHEMA_VERSION:
        what = _first(error) if error else f"schema version {version}, which never was"
        raise HarnessError(_unreadable(where, what))
    try:
        return kind.model_validate(upgraded(stored, version))
    except (ValidationError, LookupError, TypeError, AttributeError) as damage:
        what = _first(damage) if isinstance(damage, ValidationError) else "it lacks what its schema has"
        raise HarnessError(_unreadable(where, what)) from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _mapping(text: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text.decode())
    except UnicodeDecodeError:
        raise HarnessError(_unreadable(where, "not UTF-8")) from None
    except (ValueError, RecursionError) as error:
        raise HarnessError(_unreadable(where, f"not JSON, {error}")) from None
    if not isinstance(value, dict):
        raise HarnessError(_unreadable(where, "not a mapping"))
    return value


def check_version(version: Any, where: str) -> None:
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise HarnessError(
            f"{where} has schema version {version}, this harness knows {SCHEMA_VERSION}: upgrade the harness or choose "
            "another --results folder; nothing was overwritten"
        )


def _unreadable(where: str, what: str) -> str:
    return f"{where} cannot be read ({what}): mend it, or move it away and run again; nothing was overwritten"
