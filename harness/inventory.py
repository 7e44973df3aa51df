"""What is installed here: each backend with the plugin it came with, what its stack pins, and whether that and its image are made.

Reads files of plugins, imports and makes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.executors.sources import lock_file
from harness.model import Backend, HarnessError, Stack
from harness.plugins import Plugins, Provenance

Made = Callable[[Stack], Path | None]
"""Where a stack's packages are installed, None where they are not yet, as `VenvExecutor.made`. May raise HarnessError."""

Imaged = Callable[[Backend], "ImageEntry"]
"""Tells of a backend's image."""

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_PIN = re.compile(_NAME.pattern + r"(?:\[[^]]*\])?\s*==\s*([^\s;\\#]+)")


@dataclass(frozen=True)
class Pin:
    """One line of a lock."""

    name: str
    version: str


@dataclass(frozen=True)
class StackEntry:
    """A stack as this machine has it."""

    stack: Stack
    pins: tuple[Pin, ...]  # all that its lock holds, in order
    main_pins: tuple[Pin, ...]  # those that people ask about
    made: Path | None  # its packages; None: installed by the first run that needs them
    problem: str | None = None  # why it cannot be made at all


class ImageState(StrEnum):
    """What the engine has for a backend."""

    READY = "ready"
    STALE = "stale"
    NOT_BUILT = "not built"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ImageEntry:
    """A backend's image for the CPU as this machine's engine has it."""

    state: ImageState
    tag: str | None  # None where the state is unknown
    reason: str | None = None  # why it is not ready


@dataclass(frozen=True)
class BackendEntry:
    """A backend as it is installed."""

    backend: Backend
    plugin: Provenance
    stack: StackEntry
    image: ImageEntry


def installed(plugins: Plugins, made: Made, imaged: Imaged) -> list[BackendEntry]:
    """Every backend, by name."""
    stacks = {backend.stack.name: backend.stack for backend in plugins.backends.values()}
    entries = {name: stack_entry(stack, made) for name, stack in stacks.items()}
    return [
        BackendEntry(backend, plugins.provenance[name], entries[backend.stack.name], imaged(backend))
        for name, backend in plugins.backends.items()
    ]


def stacks_of(entries: Iterable[BackendEntry]) -> list[StackEntry]:
    """The stacks of these backends, each once, by name."""
    stacks = {entry.stack.stack.name: entry.stack for entry in entries}
    return [stacks[name] for name in sorted(stacks)]


def stack_entry(stack: Stack, made: Made) -> StackEntry:
    """What its lock says of a stack, and where it is made; where the lock is not there, its problem."""
    try:
        lock = lock_file(stack)
        pins, asked_for = parse_pins(lock.read_text("utf-8")), lock.with_suffix(".in")
        names = parse_names(asked_for.read_text("utf-8")) if asked_for.is_file() else None
        return StackEntry(stack, pins, main_pins(pins, names), made(stack))
    except HarnessError as error:
        return StackEntry(stack, (), (), None, str(error))


def parse_pins(lock: str) -> tuple[Pin, ...]:
    """The pins of a requirements file, in order; comments and options are none."""
    found = map(_PIN.match, lock.splitlines())
    return tuple(Pin(match[1], match[2]) for match in found if match)


def is_pin(line: str) -> bool:
    """Whether a line of a requirements file pins a distribution."""
    return _PIN.match(line) is not None


def parse_names(requests: str) -> tuple[str, ...]:
    """The distributions that a requirements file names, in order."""
    found = map(_NAME.match, requests.splitlines())
    return tuple(match[1] for match in found if match)


def main_pins(pins: Sequence[Pin], names: Sequence[str] | None) -> tuple[Pin, ...]:
    """The pins that people ask about: those of the distributions that the stack's `.in` file names, in its order.

    All of them where there is no such file (`names` is None): then the lock itself is what was written by hand.
    """
    if names is None:
        return tuple(pins)
    return tuple(pin for name in names for pin in pins if canonical(pin.name) == canonical(name))


def canonical(name: str) -> str:
    """The spelling under which an index keeps a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
