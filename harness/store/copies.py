"""Many files copied at once, each whole or not there. All are written before the first is synced: the disk takes them together."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.store import durable


class Copies:
    """Files and folders laid beside their places, and put into them together by `commit`. Left without that, none is there."""

    def __init__(self) -> None:
        self._laid: list[tuple[Path, Path]] = []  # (temporary, place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """What was laid and not committed goes: where a disk is full, it is what fills it."""
        for temporary, _ in self._laid:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)

    def add(self, source: Path, place: Path) -> None:
        """Copy a file or a folder; it takes its place when all are committed."""
        durable.make_folder(place.parent)
        temporary = place.with_name(f".{place.name[-60:]}.{secrets.token_hex(4)}.tmp")
        self._laid.append((temporary, place))
        with durable.explained(place):
            if source.is_dir():
                shutil.copytree(source, temporary)
            else:
                shutil.copyfile(source, temporary)

    def commit(self) -> None:
        """Put all into their places, on disk when this returns."""
        for temporary, _ in self._laid:
            durable.sync_all(temporary)
        for temporary, place in self._laid:
            with durable.explained(place):
                temporary.replace(place)
        for folder in {place.parent for _, place in self._laid}:
            durable.sync(folder)
