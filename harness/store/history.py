"""The append-only history: every result ever, one line each. Of most lines the head is all that anybody asks for; only those whose
results are wanted are read whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from harness.model import Result
from harness.store import durable, layout, lines
from harness.store.heads import Head, Heads
from harness.store.journal import Journal


class Entry(NamedTuple):
    """A result, and where its line is."""

    head: Head
    number: int  # of the line, from 1
    start: int  # bytes from the file's beginning
    size: int  # bytes


class History(Journal):
    """`entries` in order of writing."""

    opening = lines.OPENING

    def __init__(self, root: Path) -> None:
        super().__init__(root / layout.HISTORY)
        self.entries: list[Entry] = []
        self._heads = Heads(root)
        self._results: dict[int, Result] = {}  # those read whole, by line

    def add(self, short: lines.Short) -> None:
        """Store a result: the parts that it brings, then its line. The caller holds the store's lock and has caught up."""
        self._heads.parts.catch_up()
        self._heads.parts.add(short.parts)
        self.append(short.line)

    def results(self, entries: Iterable[Entry]) -> list[Result]:
        """Of these entries. Raises HarnessError naming file and line."""
        wanted = list(entries)
        if missing := [entry for entry in wanted if entry.number not in self._results]:
            with durable.explained(self.path), self.path.open("rb") as file:
                self._results |= {entry.number: self._result(file, entry) for entry in missing}
        return [self._results[entry.number] for entry in wanted]

    def _result(self, file: BinaryIO, entry: Entry) -> Result:
        file.seek(entry.start)
        return lines.parse(file.read(entry.size), self._where(entry.number), self._heads.parts)

    def _read(self, line: bytes, number: int) -> None:
        head = self._heads.head(line, number)
        self.entries.append(Entry(head, number, self._offset - len(line), len(line)))
