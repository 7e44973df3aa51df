"""Many files copied at once, each whole or not there: one sync for all of them, where one for each would take hours."""

from __future__ import annotations

import os
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
        with durable.explained(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name[-60:]}.{secrets.token_hex(4)}.tmp")
            if source.is_dir():
                shutil.copytree(source, temporary)
            else:
                shutil.copyfile(source, temporary)
        self._laid.append((temporary, place))

    def commit(self) -> None:
        """Put all into their places, on disk when this returns."""
        if self._laid:
            os.sync()
            for temporary, place in self._laid:
                with durable.explained(place):
                    temporary.replace(place)
            os.sync()
