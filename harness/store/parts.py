"""What results share, stored once: `parts.jsonl`, beside the history. A line is a part of a result under the digest of its content.

A part is on disk before the first line of the history that names it. Its name follows from its content, so parts of several
directories are joined without a thought, and one that was altered is noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.model import HarnessError
from harness.store import layout, records
from harness.store.journal import Journal

Content = Mapping[str, Any]
"""Fields of a result as JSON has them, nested as there."""

_DIGITS = 32
"""Of a SHA-256, in hex: enough that no two parts ever meet."""

_LINE = re.compile(rb'\{"sha256":"([0-9a-f]{32})",(.*\})\r?\n?', re.DOTALL)


def line_of(content: Content) -> tuple[str, bytes]:
    """The name of a part, and its line."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    name = _name(text)
    return name, b'{"sha256":"%s",%s\n' % (name.encode(), text[1:])


class Parts(Journal):
    """The parts of a results directory, by name."""

    opening = b'{"sha256":"'

    def __init__(self, root: Path) -> None:
        super().__init__(root / layout.PARTS)
        self._lines_by_name: dict[str, bytes] = {}
        self._contents: dict[str, Content] = {}  # those asked for

    def content(self, name: str, where: str) -> Content:
        """Of the part that a line names. Raises HarnessError naming that line where the part is missing."""
        if (known := self._contents.get(name)) is None:
            content = json.loads(self._line(name, where))
            del content["sha256"]
            known = self._contents[name] = content
        return known

    def add(self, lines: Mapping[str, bytes]) -> None:
        """Store those that are not there yet. The caller holds the store's lock, and has caught up."""
        if new := b"".join(line for name, line in lines.items() if name not in self._lines_by_name):
            self.append(new)

    @property
    def all(self) -> Mapping[str, bytes]:
        """Those read so far: lines by name."""
        return self._lines_by_name

    def _line(self, name: str, where: str) -> bytes:
        if name not in self._lines_by_name:
            self.catch_up()  # a line of the history may have been read before its parts
        try:
            return self._lines_by_name[name]
        except KeyError:
            raise HarnessError(
                f"{where} needs the part {name[:12]}, which {self.path} lacks: copy {layout.PARTS} from where this history "
                f"came from, beside it; nothing was overwritten"
            ) from None

    def _read(self, line: bytes, number: int) -> None:
        if not line.strip():
            return  # an editor's, at the end
        found = _LINE.fullmatch(line)
        if not found or found[1] != _name(b"{" + found[2]).encode():
            raise records.damaged(self._where(number), f"bring {layout.PARTS} back from a copy")
        self._lines_by_name[found[1].decode()] = line.rstrip(b"\r\n") + b"\n"


def _name(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
