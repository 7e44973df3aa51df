"""The nouns of the tiny stack that these tests build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.model import Backend, Stack


@dataclass(frozen=True)
class Plugin:
    """The import package `tiny_plugin` in a folder that is on sys.path, with the lock of the stack `tiny`."""

    folder: Path
    stack = Stack(name="tiny", lock="tiny_plugin:tiny.lock", packages=("tiny_plugin",))
    backend = Backend(name="tiny", stack=stack, runner="tiny_plugin.runner:Runner", description="")

    def write(self, name: str, text: str) -> None:
        path = self.folder / "tiny_plugin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@dataclass(frozen=True)
class SlowSource:
    """A source distribution whose build waits as long as `hold` exists."""

    folder: Path

    @property
    def requirement(self) -> str:
        return f"tiny_slow @ {self.folder.as_uri()}"

    def building_pid(self) -> int | None:
        """The process that builds it; None before it has started."""
        started = self.folder / "started"
        return int(started.read_text()) if started.exists() else None

    def release(self) -> None:
        (self.folder / "hold").unlink()
