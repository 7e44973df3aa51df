"""Records as text and back: compact, indented for people; a file that is none of ours is refused in a sentence."""

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


def to_json(record: Result | LaunchRecord | ImportedResult, exclude: set[str] | None = None) -> str:
    """Compact JSON. What JSON has no word for (NaN, infinity) becomes null: unknown."""
    try:
        return record.model_dump_json(exclude=exclude)
    except PydanticSerializationError as error:
        raise HarnessError(f"a {type(record).__name__} cannot be stored as JSON: {error}") from None


def to_text(record: Result | LaunchRecord | ImportedResult) -> str:
    """Indented JSON."""
    return indented(json.loads(to_json(record))) + "\n"


def run_to_text(run: Run) -> str:
    """Indented JSON: {key: {schema_version, metadata, measurements, config}}."""
    return indented({key: json.loads(to_json(result, exclude={"key"})) for key, result in run.items()}) + "\n"


def indented(value: Any, margin: str = "") -> str:
    """JSON of two spaces a level, but a list of numbers, unknown ones among them, on one line: they must not fill screens."""
    inner = margin + "  "
    if isinstance(value, Mapping) and value:
        items = [f"{json.dumps(name, ensure_ascii=False)}: {indented(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{margin}}}"
    if isinstance(value, list) and not all(item is None or isinstance(item, (int, float)) for item in value):
        return "[\n" + ",\n".join(inner + indented(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value, ensure_ascii=False)


def read(kind: type[Stored], path: Path) -> Stored:
    """The record in a file."""
    with explained(path):
        text = path.read_bytes()
    return parse(kind, text, str(path))


def parse(kind: type[Stored], text: bytes, where: str) -> Stored:
    """The record in a text, brought up to this schema. Raises HarnessError naming `where` when it is none, or of a newer one."""
    try:
        record = kind.model_validate_json(text)
    except ValidationError:  # `build` says what is wrong
        return build(kind, mapping(text, where), where)
    return record if record.schema_version == SCHEMA_VERSION else build(kind, mapping(text, where), where)


def build(kind: type[Stored], stored: Mapping[str, Any], where: str) -> Stored:
    """The same of JSON values: a HarnessError has the plainest true sentence: version, shape, the first field."""
    version = stored.get("schema_version")
    check_version(version, where)
    try:
        record = kind.model_validate(_upgraded(stored, version))
    except ValidationError as error:
        raise unreadable(where, first(error)) from None
    except (LookupError, TypeError, AttributeError):
        raise unreadable(where, LACKING) from None
    if record.schema_version != SCHEMA_VERSION:
        raise unreadable(where, f"schema version {version}, which never was")
    return record


def _upgraded(stored: Mapping[str, Any], version: Any) -> Mapping[str, Any]:
    """What is of no older version, as it is."""
    is_older = isinstance(version, int) and 1 <= version < SCHEMA_VERSION
    return upgraded(stored, version) if is_older else stored


LACKING = "it lacks what its schema has"


def first(error: ValidationError) -> str:
    """The first of what is wrong, with its field."""
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"


def mapping(text: bytes, where: str) -> dict[str, Any]:
    """The JSON values of a text, or a HarnessError: encoding, syntax, shape."""
    try:
        value = json.loads(text.decode())
    except UnicodeDecodeError:
        raise unreadable(where, "not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise unreadable(where, f"not JSON, {error}") from None
    if not isinstance(value, dict):
        raise unreadable(where, "not a mapping")
    return value


def check_version(version: Any, where: str) -> None:
    """Raise HarnessError where a newer harness wrote this."""
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise HarnessError(
            f"{where} has schema version {version}, this harness knows {SCHEMA_VERSION}: upgrade the harness or choose "
            "another --results folder; nothing was overwritten"
        )


def damaged(where: str, way_out: str) -> HarnessError:
    """To raise: a line that is not as it was written."""
    return HarnessError(
        f"{where} was damaged or altered, its content is not what its checksum says: {way_out}; nothing was overwritten"
    )


def unreadable(where: str, what: str) -> HarnessError:
    """To raise: a file or line that is none of ours, or damaged."""
    return HarnessError(
        f"{where} cannot be read ({what}): mend it, or move it away and run again; nothing was overwritten"
    )
