"""The head of each line of a history: what tells results apart, without reading the numbers. A million lines in seconds.

A line whose head is as we write it, and whose checksum is that of its content, is not read further. Any other is read whole, so
that what is none of ours, or damaged, is refused by file and line, as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.model import SCHEMA_VERSION, Hashes, Result, Status
from harness.store import durable, layout, records
from harness.store.journal import TORN, is_torn
from harness.store.lines import OPENING, is_as_written, parse
from harness.store.parts import Parts

_SHORT = re.compile(
    OPENING
    + b"%d" % SCHEMA_VERSION
    + rb',"crc32":"[0-9a-f]{8}","key":"([0-9a-f]{64})","parts":(\{"run":"[0-9a-f]{32}"[^{}]*\}),"metadata":\{"run_id":"([^"\\]*)",'
    rb'"timestamp":"([^"\\]*)","status":"(\w+)"[,}]'
)
_NAME = re.compile(rb'"([0-9a-f]{32})"')
_HASHES = b'"hashes":{'
"""Of a line that has another key there than its own. Within texts, quotes are escaped: it cannot be found in one."""

HashesOfHead = tuple[str, str, str | None, str]
"""Key, protocol, stack, host: resume takes results with equal ones for the same."""

_HashesOfPart = tuple[str, str | None, str]
"""Protocol, stack, host."""


class Head(NamedTuple):
    """Of a result: what tells it from others. Tuples, as there may be a million."""

    key: str
    run_id: str
    timestamp: str
    is_ok: bool
    hashes: HashesOfHead

    @property
    def host_hash(self) -> str:
        return self.hashes[3]


class Line(NamedTuple):
    """A line of a history."""

    number: int  # from 1
    start: int  # bytes from the file's beginning
    text: bytes  # newline included, where it has one
    head: Head | None  # None: its writer was killed at it


class Heads:
    """The lines of the history of a results directory, with its parts."""

    def __init__(self, root: Path) -> None:
        self.path = root / layout.HISTORY
        self.parts = Parts(root)
        self._hashes: dict[bytes, _HashesOfPart] = {}  # by the names of the parts, as a line has them

    def lines(self) -> Iterator[Line]:
        """None where there is no history. Raises HarnessError naming file and line."""
        start = 0
        for number, text in self._texts():
            yield Line(number, start, text, None if _is_torn_off(text) else self.head(text, number))
            start += len(text)

    def torn(self) -> list[int]:
        """The numbers of the lines whose writers were killed at them. Raises HarnessError where any other is not as it was."""
        torn = []
        for number, text in self._texts():
            if is_as_written(text):
                continue
            if _is_torn_off(text):
                torn.append(number)
            else:
                self.head(text, number)
        return torn

    def head(self, text: bytes, number: int) -> Head:
        """Of a whole line. Raises HarnessError naming file and line, or the part that is missing."""
        found = _SHORT.match(text)
        if not found or _HASHES in text or not is_as_written(text):
            return _head_of(parse(text, self._where(number), self.parts))
        key, parts, run_id, timestamp, status = found.groups()
        own = key.decode()
        hashes = (own, *(self._hashes.get(parts) or self._hashes_by(parts, self._where(number))))
        return Head(own, run_id.decode(), timestamp.decode(), status == b"ok", hashes)

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """Lines by number, from 1."""
        self.parts.catch_up()
        if not durable.exists(self.path):
            return
        with durable.explained(self.path), self.path.open("rb", buffering=durable.AT_ONCE_BYTES) as file:
            yield from enumerate(file, 1)

    def _where(self, number: int) -> str:
        return f"{self.path}, line {number}"

    def _hashes_by(self, parts: bytes, where: str) -> _HashesOfPart:
        """Of lines with these parts; all of them are there."""
        try:
            contents = [self.parts.content(name.decode(), where) for name in _NAME.findall(parts)]
            hashes = contents[0]["metadata"]["hashes"]
            found = hashes["protocol_hash"], hashes["stack_hash"], hashes["host_hash"]
        except (LookupError, TypeError, ValueError):
            raise records.unreadable(where, records.LACKING) from None
        self._hashes[parts] = found
        return found


def _is_torn_off(text: bytes) -> bool:
    return text.endswith(TORN) or (not text.endswith(b"\n") and is_torn(text, OPENING))


def _head_of(result: Result) -> Head:
    metadata = result.metadata
    is_ok = result.status is Status.OK
    return Head(result.key, metadata.run_id, metadata.timestamp, is_ok, told(metadata.hashes))


def told(hashes: Hashes) -> HashesOfHead:
    """As heads have them."""
    return hashes.key, hashes.protocol_hash, hashes.stack_hash, hashes.host_hash
