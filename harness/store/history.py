"""The append-only history: every result ever, one line each, read once and then followed.

A writer killed while appending leaves the beginning of a line. The next append ends that line with ` #torn`, leaving the text
as it is, so that it is never taken for damage of another kind: any other line that cannot be read is an error.
"""

from __future__ import annotations

import codecs
import json
from pathlib import Path

from harness.model import Result
from harness.store import durable, records

TORN = b" #torn\n"
_OPENING = b'{"schema_version":'
"""How every line begins: what starts otherwise was not torn off one of ours."""


class History:
    """`results` in order of writing; `torn` the numbers of the lines a kill has cut short."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: list[Result] = []
        self._torn: list[int] = []
        self._lines = 0  # complete lines read so far
        self._offset = 0  # bytes read so far
        self._unended = False  # the last of them has no newline, an editor took it
        self._tail = b""  # after the last newline: the beginning of a line, not counted in the two above

    @property
    def torn(self) -> list[int]:
        return [*self._torn, self._lines + 1] if self._tail else list(self._torn)

    def catch_up(self) -> None:
        """Read what was appended since the last time, by whomever. Raises HarnessError naming file and line."""
        if not durable.exists(self.path):
            return
        with durable.explained(self.path), self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                self._take(line)

    def append(self, line: bytes) -> None:
        """Add a result's line. The caller holds the store's lock and has caught up."""
        durable.append(self.path, self._ending() + line)
        self.catch_up()

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\n") and is_torn(line):
            self._tail = line  # read again next time: its writer may be at it just now
            return
        self._tail = b""
        self._offset += len(line)
        if self._unended and line == b"\n":
            self._unended = False
            return
        self._take_whole(line)

    def _take_whole(self, line: bytes) -> None:
        number = self._lines + 1
        if line.endswith(TORN):
            self._torn.append(number)
        else:
            self.results.append(records.parse(Result, line, f"{self.path}, line {number}"))
        self._lines = number
        self._unended = not line.endswith(b"\n")

    def _ending(self) -> bytes:
        """What must come before a new line."""
        if self._tail:
            return TORN
        return b"\n" if self._unended else b""


def is_torn(text: bytes) -> bool:
    """Whether a text is the beginning of one of our lines, and not all of it."""
    if not (text.startswith(_OPENING) or _OPENING.startswith(text)):
        return False
    try:
        json.loads(codecs.getincrementaldecoder("utf-8")().decode(text))
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True
    return False
