"""What /proc tells of this process and its children: who they are, and the peaks of their resident memory.

VmHWM, not `ru_maxrss`: the latter is inherited through exec, so a small worker started by a large host would report the
host's peak, and a compiler started by a large worker the worker's.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

RESET_PEAK = "5"
"""What resets VmHWM when written to clear_refs: proc(5)."""


@dataclass(frozen=True)
class Reading:
    """A number of bytes, or why there is none."""

    bytes: int | None
    reason: str | None = None


def peak_rss(process: Path = PROC / "self") -> Reading:
    """The highest resident memory of a process since it started or since the last reset. `process` is its folder in /proc."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", (process / "status").read_text(), re.MULTILINE)
    except OSError as error:
        return Reading(None, f"cannot be read: {error}")
    return Reading(int(found[1]) * 1024) if found else Reading(None, f"no VmHWM in {process / 'status'}")


def descendants(proc: Path = PROC) -> set[int]:
    """Children of this process, their children, and so on; without those whose parent has died."""
    parents = {int(folder.name): parent for folder in proc.glob("[0-9]*") if (parent := _parent(folder)) is not None}
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def threads_cpu_ns(tasks: Path = PROC / "self/task") -> dict[int, int]:
    """Processor time of each living thread below `tasks`, those of this process: the first number of its schedstat."""
    times = {}
    for thread in sorted(tasks.iterdir(), key=lambda task: int(task.name)):
        with suppress(OSError):  # gone meanwhile
            times[int(thread.name)] = int((thread / "schedstat").read_text().split()[0])
    return times


def threads_called(name: str, tasks: Path = PROC / "self/task") -> int:
    """How many living threads below `tasks`, those of this process, have a name: the kernel's, its first fifteen bytes."""
    names = []
    for thread in tasks.iterdir():
        with suppress(OSError):  # gone meanwhile
            names.append((thread / "comm").read_text().strip())
    return names.count(name)


def anonymous_bytes(proc: Path = PROC) -> int:
    """Resident memory of this process that is no file's."""
    return int((proc / "self/status").read_text().partition("RssAnon:")[2].split()[0]) * 1024


def mapped_bytes(folders: Iterable[str], proc: Path = PROC) -> int:
    """Sizes of the parts of files below these folders that are mapped into this process, resident or not."""
    beginnings = tuple(f"{folder}/" for folder in folders)
    lines = (line.split(maxsplit=5) for line in (proc / "self/maps").read_text().splitlines())
    return sum(_size(fields[0]) for fields in lines if len(fields) == 6 and fields[5].startswith(beginnings))


def _size(addresses: str) -> int:
    """Of a mapping, as "7f00-7fff"."""
    start, end = (int(address, 16) for address in addresses.split("-"))
    return end - start


class PeakWatch:
    """The highest resident memory of this process from now on."""

    def __init__(self, proc: Path = PROC) -> None:
        self._process = proc / "self"
        self._not_reset = _reset_peak(self._process)

    def read(self) -> Reading:
        """Unknown where the old peak could not be reset: it may be the higher one."""
        return self._not_reset or peak_rss(self._process)


class ChildrenWatch:
    """The highest resident memory of each descendant from now on, summed.

    The peaks may have come at different times and pages shared between processes count in each: the sum is an upper bound.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._before = descendants(proc)
        self._ended_before = _ended_children()
        self._not_reset = [failed for pid in self._before if (failed := _reset_peak(proc / str(pid)))]

    def read(self) -> Reading:
        """0 where there is no descendant. Unknown where one of them took its peak with it, or one cannot be read."""
        now = descendants(self._proc)
        if self._before - now or _ended_children() != self._ended_before:
            return Reading(None, "a child process ended during the memory pass, and its peak with it")
        return _sum([*self._not_reset, *(peak_rss(self._proc / str(pid)) for pid in sorted(now))])


def _sum(readings: Iterable[Reading]) -> Reading:
    total = 0
    for reading in readings:
        if reading.bytes is None:
            return Reading(None, f"of a child process: {reading.reason}")
        total += reading.bytes
    return Reading(total)


def _parent(process: Path) -> int | None:
    """None for one that is gone meanwhile. The second field of `stat`, a name in brackets, may hold brackets and blanks."""
    try:
        after_name = (process / "stat").read_text().rpartition(")")[2]
    except OSError:
        return None
    return int(after_name.split()[1])


def _ended_children() -> int:
    """Moves whenever a child that has run at all was waited for: the kernel adds its page faults here."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _reset_peak(process: Path) -> Reading | None:
    """None where it worked."""
    try:
        (process / "clear_refs").write_text(RESET_PEAK)
    except OSError as error:
        return Reading(None, f"the peak could not be reset before the memory pass: {error}")
    return None
