"""What every executor offers. A launch is an argv: it can be printed, pasted and rerun."""

from __future__ import annotations

import shlex
import signal
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
    device: str = "cpu"  # kind, as the cell says it


@dataclass(frozen=True)
class Ending:
    """How a process that said no last word ended."""

    status: Status  # crashed, out_of_memory, engine_lost; failed where the engine did not start it
    message: str  # one sentence: "ended by signal 9 (SIGKILL)", "exited with code 3"


class Executor(Protocol):
    """How the host starts workers."""

    name: str

    def provide(self, backend: Backend, progress: Progress, device: str = "cpu") -> Provided:
        """Make the environment or image of the backend's stack for a kind of device, or find it made.

        Raises HarnessError with the last lines of what failed.
        """

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ("-m", "harness.worker")) -> list[str]:
        """The argv of a launch (or, with other arguments, of a tool run in the stack). `provide` came before.

        Ask just before the start: what the start needs is made ready, and what `ending` compares with is noted.
        """

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        """The whole environment of the process: nothing inherited that changes threads or caches."""

    def visible(self, launch: LaunchSpec, path: Path) -> str:
        """The path under which the worker sees a path of the host."""

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        """What the exit code (and the engine, where there is one) says of a process that ended without a last word.

        Asked after `kill`, so that its log is whole.
        """

    def hidden_ending(self, launch: LaunchSpec) -> Ending | None:
        """What ended part of a launch before its last word, where an engine knows: a child that ran out of memory. After `kill`."""

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        """End the launch now, children included. Idempotent."""

    def survivors(self, launch: LaunchSpec) -> list[str]:
        """What of a launch is still there, in words: nothing after `kill`, as far as that could find it."""


def worker_variables(scratch: str) -> dict[str, str]:
    """Environment variables of every worker: each cache lies in its scratch folder (as it sees it), nothing goes online."""
    return {
        "LANG": "C.UTF-8",
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "HF_HOME": f"{scratch}/huggingface",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        # 150 MB of precompiled headers, used once by a launch that starts from nothing, copied by each warm one; the compile
        # time is the same without them (docs/methodology.md).
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }


def signal_words(number: int) -> str:
    """As "signal 9 (SIGKILL)"."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def shell_command(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """One line to paste into any shell, in any folder: the command in its whole environment."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return shlex.join(["env", "-i", *variables, *command])
