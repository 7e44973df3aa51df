"""A result as a line of the history. What is equal in many results is named there and lies in `parts.jsonl`; nulls, and what
follows from the rest, are left out: a fifth of the bytes, so that a million results are merged and asked in seconds.

A line has a checksum of what stands after it: whether it is whole and as it was written is known without reading its JSON. A line
without `parts` is a whole result, as older schemas wrote it and as the other files hold it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.model import SCHEMA_VERSION, HarnessError, LaunchSummary, Result
from harness.store import layout, records
from harness.store.parts import Content, Parts, line_of

OPENING = b'{"schema_version":'
"""How every line of a history begins."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "run": (
        *("metadata.harness_version", "metadata.executor", "metadata.protocol", "metadata.environment"),
        *("metadata.hashes.protocol_hash", "metadata.hashes.stack_hash", "metadata.hashes.host_hash"),
    ),
    "cell": (
        *("metadata.checkpoint_sha256", "metadata.licence", "metadata.inputs_sha256"),
        *("metadata.requested", "metadata.effective", "metadata.versions", "metadata.details"),
    ),
    "reasons": ("measurements.reasons", "measurements.monitoring.reasons"),
}
"""Part -> its fields: equal for the cells of a run with one stack; for a cell from run to run; for cells of one kind."""

_NAMES = b'"parts":{'
"""In texts, quotes are escaped: this is found only where something has this name."""

CHECKED = re.compile(rb'\{"schema_version":\d+,"crc32":"([0-9a-f]{8})",')
"""How a line with parts begins; the checksum is that of all that follows, but for the line's end."""

_Stored = dict[str, Any]


def part_of(path: str) -> str | None:
    """The part that has a field, or a field of it; None where the line has it."""
    holders = (kind for kind, paths in PARTS.items() for each in paths if f"{path}.".startswith(f"{each}."))
    return next(holders, None)


class Short(NamedTuple):
    """A result to be stored."""

    line: bytes  # newline included
    parts: dict[str, bytes]  # those that it names: lines by name


def shortened(result: Result) -> Short:
    """A result as a line with its parts.

    Read back here: a line that a later reader refused would lock the whole history. Raises HarnessError.
    """
    stored: _Stored = json.loads(records.to_json(result))
    try:
        Result.model_validate(stored)
    except ValidationError as error:
        raise HarnessError(f"the result of {result.key} cannot be stored as JSON: {records.first(error)}") from None
    found = {kind: content for kind, paths in PARTS.items() if (content := _cut(stored, paths))}
    parts = {kind: line_of(content) for kind, content in found.items()}
    _leave_out(stored)
    del stored["schema_version"]
    line = {"key": stored.pop("key"), "parts": {kind: name for kind, (name, _) in parts.items()}, **stored}
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()[1:]
    return Short(checked(text), dict(parts.values()))


def checked(content: bytes) -> bytes:
    """A line of this schema, given what follows its checksum."""
    return b'{"schema_version":%d,"crc32":"%08x",%s\n' % (SCHEMA_VERSION, zlib.crc32(content), content)


def is_as_written(text: bytes) -> bool:
    """Whether a line's checksum is that of its content."""
    found = CHECKED.match(text)
    if not found:
        return False
    end = len(text) - (2 if text.endswith(b"\r\n") else text.endswith(b"\n"))
    return int(found[1], 16) == zlib.crc32(memoryview(text)[found.end() : end])


def parse(text: bytes, where: str, parts: Parts) -> Result:
    """The result of a line. Raises HarnessError naming `where`, or the part that is missing."""
    if _NAMES not in text:
        return records.parse(Result, text, where)
    stored = records.mapping(text, where)
    records.check_version(stored.get("schema_version"), where)
    if not isinstance(stored.get("parts"), dict):
        return records.parse(Result, text, where)
    if not is_as_written(text):
        raise records.damaged(where, "bring the file back from a copy, or take that line out and run again")
    del stored["crc32"]
    try:
        whole = _whole(stored, [parts.content(str(name), where) for name in stored.pop("parts").values()])
    except (LookupError, TypeError, AttributeError, ValueError):
        raise records.unreadable(where, records.LACKING) from None
    return records.build(Result, whole, where)


# --- to a line ------------------------------------------------------------------------------------------------------


def _cut(stored: _Stored, paths: Sequence[str]) -> _Stored:
    """Take these fields out, as far as they are there: nested as they were."""
    content: _Stored = {}
    for path in paths:
        *parents, leaf = path.split(".")
        source, target = stored, content
        for parent in parents:
            source = source.get(parent) or {}
        if leaf not in source:
            continue
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = source.pop(leaf)
    return content


def _leave_out(stored: _Stored) -> None:
    """What is null, and what follows from the rest."""
    hashes, numbers = stored["metadata"]["hashes"], stored["measurements"]
    if hashes["key"] == stored["key"]:
        del stored["metadata"]["hashes"]
    numbers["per_launch"] = _columns(numbers["per_launch"], stored["key"]) or None
    if numbers["monitoring"]:
        numbers["monitoring"] = _without_nulls(numbers["monitoring"])
    for name in ("metadata", "measurements", "config"):
        stored[name] = _without_nulls(stored[name])


def _without_nulls(fields: Mapping[str, Any]) -> _Stored:
    return {name: value for name, value in fields.items() if value is not None}


def _columns(launches: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[Any]]:
    """Field -> its values, launch by launch; without the folders where they are those of the layout."""
    if not launches:
        return {}
    columns = {name: [launch[name] for launch in launches] for name in LaunchSummary.model_fields}
    if columns["folder"] == _folders(columns["launch_id"], key):
        del columns["folder"]
    return columns


def _folders(launch_ids: Sequence[str], key: str) -> list[str]:
    return [layout.launch_folder(key, launch_id) for launch_id in launch_ids]


# --- and back -------------------------------------------------------------------------------------------------------


def _whole(stored: _Stored, parts: Sequence[Content]) -> _Stored:
    """A line with its parts, as the other files hold a result; what is null stays away."""
    for part in parts:
        stored = _joined(stored, part)
    metadata = stored["metadata"]
    metadata["hashes"] = {"key": stored["key"], **metadata["hashes"]}
    if columns := stored["measurements"].get("per_launch"):
        columns = {"folder": _folders(columns["launch_id"], stored["key"]), **columns}
        stored["measurements"]["per_launch"] = [
            dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]
    return stored


def _joined(fields: Mapping[str, Any], others: Mapping[str, Any]) -> _Stored:
    """The fields of both; where both have fields below one, of both. Neither is altered."""
    both = {name: _joined(fields[name], others[name]) for name in fields.keys() & others.keys()}
    return {**others, **fields, **both}
