"""What a container may use and see: the options that `docker run` gets for every launch, and the paths inside.

Pure but for `Limits.of_this_machine`. docs/docker.md tells the threat model that these options answer.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from harness.cgroups import memory_limit_bytes
from harness.executors.base import LaunchSpec
from harness.host import format_cpus
from harness.model import HarnessError

LAUNCH, SCRATCH, READABLE = PurePosixPath("/launch"), PurePosixPath("/scratch"), PurePosixPath("/readable")
"""Where a worker sees its launch folder, its scratch folder (where that lies elsewhere), and what it may read, by number."""

WORKER_ID = 10001
"""User and group of workers whose host is root: a number that owns nothing."""

_MEMORY_SHARE = 0.8
"""Of what this process may use, for each container: one that takes too much ends by its own limit, which the engine tells,
before the machine's own killer chooses anybody."""

_PIDS_AT_LEAST, _PIDS_A_PROCESSOR = 256, 32
"""Threads count: frameworks start several pools of a thread per processor, compilers a process per processor."""

_TMPFS = "/tmp:rw,noexec,nosuid,nodev,size=512m,mode=1777"
"""For what insists on /tmp; everything that a framework builds and loads lies in the launch's scratch folder. It counts
towards the memory limit."""

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The same for every container of an executor, so that all backends compete on equal terms."""

    cpuset: str  # processors, as "0-3"
    memory_bytes: int  # swap included: a worker that swaps measures the disk
    pids: int

    @classmethod
    def of_this_machine(cls) -> Limits:
        """From what this process may use now: its processors, and the narrowest memory limit above it."""
        processors = os.sched_getaffinity(0)
        usable_bytes = min(psutil.virtual_memory().total, memory_limit_bytes() or 1 << 62)
        return cls(
            cpuset=format_cpus(processors),
            memory_bytes=int(usable_bytes * _MEMORY_SHARE) // MIB * MIB,
            pids=_PIDS_AT_LEAST + _PIDS_A_PROCESSOR * len(processors),
        )


@dataclass(frozen=True)
class User:
    """Who the worker is, by number."""

    uid: int
    gid: int

    @classmethod
    def of_worker(cls, *, engine_is_rootless: bool) -> User:
        """The caller; never the machine's root. In a rootless engine's containers, root *is* the caller."""
        if engine_is_rootless:
            return cls(0, 0)
        return cls(os.getuid(), os.getgid()) if os.getuid() != 0 else cls(WORKER_ID, WORKER_ID)


def hardening(limits: Limits, user: User) -> list[str]:
    """No network, nothing writable but what is mounted for it, no privileges, no more than its share."""
    return [
        *("--network", "none"),
        "--read-only",
        *("--user", f"{user.uid}:{user.gid}"),
        *("--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        *("--pids-limit", str(limits.pids)),
        *("--memory", f"{limits.memory_bytes}b", "--memory-swap", f"{limits.memory_bytes}b"),
        *("--cpuset-cpus", limits.cpuset),
        *("--log-driver", "none"),  # the conversation and the log are read here; the engine would keep both on its disk
        *("--tmpfs", _TMPFS),
    ]


def mounts(launch: LaunchSpec) -> list[str]:
    """Exactly the launch's folders: its own writable, what it reads read-only.

    Raises HarnessError for a path that Docker cannot mount.
    """
    options = _mount(launch.folder, LAUNCH, writable=True)
    if not _is_inside(launch.scratch, launch.folder):
        options += _mount(launch.scratch, SCRATCH, writable=True)
    for number, path in enumerate(launch.readable):
        options += _mount(path, READABLE / str(number), writable=False)
    return options


def visible(launch: LaunchSpec, path: Path) -> str:
    """The path inside for a path of the host. Raises HarnessError for one that is not mounted."""
    places = [(launch.folder, LAUNCH), (launch.scratch, SCRATCH)]
    places += [(readable, READABLE / str(number)) for number, readable in enumerate(launch.readable)]
    for outside, inside in places:
        if _is_inside(path, outside):
            return str(inside / path.absolute().relative_to(outside.absolute()).as_posix())
    raise HarnessError(f"{path} is not mounted in the container of launch {launch.launch_id}; report this as a bug")


def variables(values: Mapping[str, str]) -> list[str]:
    """Environment variables of the worker, as options."""
    return [option for name, value in values.items() for option in ("--env", f"{name}={value}")]


def gpu(uuid: str) -> list[str]:
    """One GPU or MIG instance and no other; inside, it is number 0. By UUID: tools differ in how they number."""
    return ["--gpus", f"device={uuid}"]


def _mount(source: Path, target: PurePosixPath, *, writable: bool) -> list[str]:
    # --mount, not -v, which makes a folder, root's, where the source is missing, and cannot take a colon.
    fields = ["type=bind", f"source={_mountable(source)}", f"target={target}", *([] if writable else ["readonly"])]
    return ["--mount", _csv(fields)]


def _mountable(path: Path) -> str:
    text = str(path.absolute())
    if not text.isprintable() or text != text.strip():
        raise HarnessError(
            f"Docker cannot mount {text!r}: its name begins or ends with a space, or has characters that cannot be printed or "
            "are no UTF-8; use another folder (--results, HARNESS_CACHE), or --executor venv"
        )
    return text


def _csv(fields: Sequence[str]) -> str:
    """One line as the client reads it, so that commas and quotes in paths are no separators."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _is_inside(path: Path, folder: Path) -> bool:
    return path.absolute().is_relative_to(folder.absolute())
