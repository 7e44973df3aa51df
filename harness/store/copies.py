"""Many files copied at once, each whole or not there. All are written before the first is synced: the disk takes them together."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from harness.store import durable


class Copies:
    """Files and folders laid beside their places, and put into them together by `commit`."""

    def __init__(self) -> None:
        self._laid: list[tuple[Path, Path]] = []  # (temporary, place)

    def add(self, source: Path, place: Path) -> None:
        """Copy a file or a folder; it takes its place when all are committed."""
        durable.make_folder(place.parent)
        temporary = place.with_name(f".{place.name[-60:]}.{secrets.token_hex(4)}.tmp")
        with durable.explained(place):
            if source.is_dir():
                shutil.copytree(source, temporary)
            else:
                shutil.copyfile(source, temporary)
        self._laid.append((temporary, place))

    def commit(self) -> None:
        """Put all into their places, on disk when this returns."""
        for temporary, _ in self._laid:
            durable.sync_all(temporary)
        for temporary, place in self._laid:
            with durable.explained(place):
                temporary.replace(place)
        for folder in {place.parent for _, place in self._laid}:
            durable.sync(folder)
