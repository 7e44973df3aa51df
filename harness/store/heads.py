"""The head of each line of a history: what tells results apart, without reading the numbers. A million lines in seconds.

A line whose head is as we write it, and that ends as a record does, is not read further. Any other is read whole, so that what is
none of ours is refused by file and line, as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.model import Result, Status
from harness.store import durable, records
from harness.store.history import TORN, is_torn

_HEAD = re.compile(rb'\{"schema_version":(\d+),"key":"([0-9a-f]{64})","metadata":\{"run_id":"([^"\\]*)",')
_HASHES = b'"hashes":{'
_HOST = b'"host_hash":"'
_STATUS_OK = b'"status":"ok","error":null,'
"""Within texts, quotes are escaped: none of these can be found in one."""


class Head(NamedTuple):
    """Of a result: what tells it from others. Tuples, as there may be a million."""

    key: str
    run_id: str
    is_ok: bool
    hashes: bytes  # equal for results that resume takes for the same
    host_hash: str


class Line(NamedTuple):
    """A line of a history."""

    number: int  # from 1
    start: int  # bytes from the file's beginning
    text: bytes  # newline included, where it has one
    head: Head | None  # None: its writer was killed at it


def lines(path: Path) -> Iterator[Line]:
    """The lines of a history; none where there is none. Raises HarnessError naming file and line."""
    if not durable.exists(path):
        return
    start = 0
    with durable.explained(path), path.open("rb") as file:
        for number, text in enumerate(file, 1):
            yield Line(number, start, text, _head(text, f"{path}, line {number}"))
            start += len(text)


def _head(text: bytes, where: str) -> Head | None:
    if text.endswith(TORN) or (not text.endswith(b"\n") and is_torn(text)):
        return None
    found = _HEAD.match(text)
    start = text.find(_HASHES, found.end()) if found else -1
    if not found or start < 0 or not _looks_whole(text):
        return _head_of(records.parse(Result, text, where))
    version, key, run_id = found.groups()
    records.check_version(int(version), where)
    hashes = text[start + len(_HASHES) : text.index(b"}", start)]
    is_ok = text.find(_STATUS_OK, found.end(), start) > 0
    return Head(key.decode(), run_id.decode(), is_ok, hashes, hashes.rpartition(_HOST)[2][:-1].decode())


def _looks_whole(text: bytes) -> bool:
    """Whether it ends as records do, and no other begins within it."""
    return text.endswith(b"}}\n") and text.rfind(b'{"schema_version":') == 0 and text.rfind(b',"config":{"model":') > 0


def _head_of(result: Result) -> Head:
    hashes = result.metadata.hashes
    told = hashes.model_dump_json().encode()[1:-1]
    return Head(result.key, result.metadata.run_id, result.status is Status.OK, told, hashes.host_hash)
