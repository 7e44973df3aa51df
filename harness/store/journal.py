"""A file of lines that only grows, read once and then followed: the history, and the parts that its lines share.

A writer killed while appending leaves the beginning of a line. The next append ends that line with ` #torn`, leaving the text
as it is, so that it is never taken for damage of another kind: any other line that cannot be read is an error.
"""

from __future__ import annotations

import codecs
import json
from abc import ABC, abstractmethod
from pathlib import Path

from harness.store import durable

TORN = b" #torn\n"


class Journal(ABC):
    """`torn` are the numbers of the lines that a kill has cut short."""

    opening: bytes
    """How every line begins: what starts otherwise was not torn off one of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._torn: list[int] = []
        self._lines = 0  # complete lines read so far
        self._offset = 0  # bytes read so far
        self._unended = False  # the last of them has no newline, an editor took it
        self._tail = b""  # after the last newline: the beginning of a line, not counted in the two above

    @abstractmethod
    def _read(self, line: bytes, number: int) -> None:
        """Take in a whole line, up to whose end was read so far. Raises HarnessError naming file and line."""

    @property
    def torn(self) -> list[int]:
        return [*self._torn, self._lines + 1] if self._tail else list(self._torn)

    def catch_up(self) -> None:
        """Read what was appended since the last time, by whomever. Raises HarnessError naming file and line."""
        if not durable.exists(self.path):
            return
        with durable.explained(self.path), self.path.open("rb", buffering=durable.AT_ONCE_BYTES) as file:
            file.seek(self._offset)
            for line in file:
                self._take(line)

    def append(self, lines: bytes) -> None:
        """Add lines, each ended by a newline. The caller holds the store's lock and has caught up."""
        durable.append(self.path, self._ending() + lines)
        self.catch_up()

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\n") and is_torn(line, self.opening):
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
            self._read(line, number)
        self._lines = number
        self._unended = not line.endswith(b"\n")

    def _where(self, number: int) -> str:
        """A line, for messages."""
        return f"{self.path}, line {number}"

    def _ending(self) -> bytes:
        """What must come before a new line."""
        if self._tail:
            return TORN
        return b"\n" if self._unended else b""


def is_torn(text: bytes, opening: bytes) -> bool:
    """Whether a text is the beginning of a line with this opening, and not all of it."""
    if not (text.startswith(opening) or opening.startswith(text)):
        return False
    try:
        json.loads(codecs.getincrementaldecoder("utf-8")().decode(text))
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True
    return False
