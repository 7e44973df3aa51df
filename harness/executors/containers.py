"""Containers of ours on an engine: how they are named and labelled, and which of them an ended run has left.

A worker ends with its host (its stdin closes), but nobody is there then to remove its container. So every container says which
process started it, and the next run, or `harness clean`, removes those whose process is gone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engine import ContainerFacts, Engine

LAUNCH_LABEL = "org.backend-harness.launch"
_PID_LABEL = "org.backend-harness.host.pid"
_STARTED_LABEL = "org.backend-harness.host.started"
_BOOT_LABEL = "org.backend-harness.host.boot"
_NAMESPACE_LABEL = "org.backend-harness.host.namespace"


@dataclass(frozen=True)
class Host:
    """The process that starts containers, told from any other that may get its number later."""

    pid: int
    started_ticks: str  # since the machine's start, as /proc tells it: no clock can be set in between
    boot: str  # differs after a restart of the machine
    namespace: str  # of process numbers: where it is another one, the number means nothing here

    @classmethod
    def this(cls) -> Host:
        pid = os.getpid()
        return cls(pid, _started_ticks(pid) or "", _boot(), _namespace())

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Host:
        """As a container's labels tell it. One without them was not started by us as we are now: of an unknown namespace."""
        return cls(
            int(labels.get(_PID_LABEL, "0")),
            labels.get(_STARTED_LABEL, ""),
            labels.get(_BOOT_LABEL, _boot()),
            labels.get(_NAMESPACE_LABEL, ""),
        )

    def labels(self) -> dict[str, str]:
        return {
            _PID_LABEL: str(self.pid),
            _STARTED_LABEL: self.started_ticks,
            _BOOT_LABEL: self.boot,
            _NAMESPACE_LABEL: self.namespace,
        }

    def is_gone(self) -> bool | None:
        """Whether it has ended; None where that cannot be known from here."""
        if self.boot != _boot():
            return True
        if self.namespace != _namespace():
            return None
        return _started_ticks(self.pid) != self.started_ticks


@dataclass(frozen=True)
class Cleaned:
    """Names of containers."""

    removed: tuple[str, ...]
    unknown: tuple[
        str, ...
    ]  # kept: whether their run goes on cannot be seen from here, as from inside another container


def name_of(launch_id: str) -> str:
    """The container of a launch."""
    return f"backend-harness-{launch_id}"


def labels_of(launch_id: str, host: Host) -> list[str]:
    """As options of `docker run`."""
    labels = {LAUNCH_LABEL: launch_id, **host.labels()}
    return [option for name, value in labels.items() for option in ("--label", f"{name}={value}")]


def clean(engine: Engine, *, unknown_too: bool = False) -> Cleaned:
    """Remove what ended runs have left; a living run's containers stay. Raises EngineLostError."""
    found = [(container, Host.of(container.labels).is_gone()) for container in engine.containers(LAUNCH_LABEL)]
    unknown = [container for container, gone in found if gone is None]
    left = [container for container, gone in found if gone] + (unknown if unknown_too else [])
    for container in left:
        engine.remove(container.name)
    return Cleaned(_names(left), () if unknown_too else _names(unknown))


def _names(containers: list[ContainerFacts]) -> tuple[str, ...]:
    return tuple(sorted(container.name for container in containers))


def _started_ticks(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat, counted after the name, which may hold anything (proc(5)). None: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())
