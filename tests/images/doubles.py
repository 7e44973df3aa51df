"""What the tests of images put in place of what takes long: a plugin, an engine, a docker command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.engine import ImageFacts
from harness.images.base import Base
from harness.images.client import Hear, Outcome
from harness.model import Backend, Stack

BASE = Base("python:3.11-slim", "sha256:base", (3, 11), (2, 36), "x86_64")

BUILDKIT = 'case "$1 $2" in "build --help") echo "  --secret stringArray"; exit 0;; esac\n'
"""Of a shell script that stands in for a docker command: it can build."""


def unheard(_line: str) -> None:
    """Progress that nobody listens to."""


@dataclass(frozen=True)
class TinyPlugin:
    """The import package `tiny_images` in a folder that is on sys.path, with the locks of the stack `tiny-images`."""

    folder: Path
    stack = Stack(
        name="tiny-images",
        lock="tiny_images:tiny.lock",
        packages=("tiny_images",),
        device_locks={"cuda": "tiny_images:tiny-cuda.lock"},
    )

    def backend(self, name: str = "tiny_images", **fields: Any) -> Backend:
        described = Backend(name=name, stack=self.stack, runner="tiny_images.runner:Runner", description="")
        return replace(described, **fields)

    def write(self, name: str, text: str) -> None:
        path = self.folder / "tiny_images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def lock(self, text: str, suffix: str = "") -> None:
        self.write(f"tiny{suffix}.lock", text)


@dataclass(frozen=True)
class Commands:
    """Folders on the path, for commands that tests write as shell scripts."""

    folders: Sequence[Path]

    def write(self, body: str, place: int = 0, name: str = "docker") -> Path:
        path = self.folders[place] / name
        path.write_text(f"#!/bin/sh\n{body}")
        path.chmod(0o755)
        return path


@dataclass
class Images:
    """An engine as far as images are looked up."""

    images: dict[str, ImageFacts] = field(default_factory=dict)
    host: str = "unix:///nowhere.sock"

    def image(self, reference: str) -> ImageFacts | None:
        return self.images.get(reference)

    def add(self, tag: str, image_id: str, labels: dict[str, str] | None = None) -> None:
        self.images[tag] = ImageFacts(image_id, (tag,), labels or {}, 1000)


@dataclass
class Spoken:
    """A client that notes what it is asked, and does and answers what it was told to by the first word."""

    answers: dict[str, Outcome] = field(default_factory=dict)
    doing: dict[str, Callable[[], None]] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def run(self, arguments: Sequence[str], hear: Hear | None = None) -> Outcome:
        self.asked.append(list(arguments))
        self.doing.get(arguments[0], lambda: None)()
        outcome = self.answers.get(arguments[0], Outcome(0, ()))
        for line in outcome.lines:
            if hear is not None:
                hear(line)
        return outcome
