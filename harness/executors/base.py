"""What every executor offers. A launch is an argv: it can be printed, pasted and rerun."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.model import Backend, Status

Progress = Callable[[str], None]
"""Told one short line at a time, as "pytorch: installing torch 2.13.0 (12 of 41)"."""


@dataclass(frozen=True)
class Provided:
    """A backend's stack, ready to run its workers."""

    stack: str
    stack_hash: str  # over lock, python version or image, plugin and worker code
    python: Path  # the interpreter, as the executor starts it
    facts: Mapping[str, Any]  # lock hash, python version, plugin versions, folder: stored with each result


@dataclass(frozen=True)
class LaunchSpec:
    """One process to start. The paths are the host's; an executor translates them where its workers see others."""

    launch_id: str
    backend: Backend
    folder: Path  # writable by the worker
    scratch: Path  # writable, private, removed after the launch
    readable: Sequence[Path] = ()  # checkpoint and inputs: read-only


@dataclass(frozen=True)
class Ending:
    """How a process that said no last word ended."""

    status: Status  # crashed, out_of_memory, timeout, engine_lost
    message: str  # one sentence: "ended by signal 9 (SIGKILL)", "exited with code 3"


class Executor(Protocol):
    """How the host starts workers."""

    name: str

    def provide(self, backend: Backend, progress: Progress) -> Provided:
        """Make the environment or image of the backend's stack, or find it made.

        Raises HarnessError with the last lines of what failed.
        """

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ("-m", "harness.worker")) -> list[str]:
        """The argv of a launch (or, with other arguments, of a tool run in the stack). `provide` came before."""

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        """The whole environment of the process: nothing inherited that changes threads or caches."""

    def visible(self, launch: LaunchSpec, path: Path) -> str:
        """The path under which the worker sees a path of the host."""

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        """What the exit code (and the engine, where there is one) says of a process that ended without a last word."""

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        """End the launch now, children included. Idempotent."""


def shell_command(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """One line to paste into any shell, in any folder: the command in its whole environment."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return shlex.join(["env", "-i", *variables, *command])
