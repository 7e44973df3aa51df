"""Which processors the workers have while rounds run, and which the host keeps to meanwhile.

Where a machine has more processors than a workload has threads, host and monitor keep to the last one, and the workers have all
others: more than their threads need, so that the kernel can move them out of the way of other processes. Where it has not, there
is nowhere to go: the host sleeps while calls are timed, and that has to do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.host import format_cpus

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Division:
    """Processor numbers. Both are empty where no processor can be spared: then nobody is moved."""

    workers: Sequence[int] = ()  # one of each core first
    host: Sequence[int] = ()

    def facts(self) -> dict[str, str | None]:
        """As stored with each launch; null: any that it may use."""
        return {"workers": format_cpus(self.workers) or None, "host": format_cpus(self.host) or None}


def siblings_of(cpu: int, cpus: Path = CPUS) -> frozenset[int]:
    """The processors that share a core with this one, itself included; itself alone where the system does not tell."""
    try:
        listed = (cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return frozenset({cpu})
    runs = (run.partition("-") for run in listed.split(","))
    return frozenset(cpu for first, _, last in runs for cpu in range(int(first), int(last or first) + 1))


def divide(threads: int, usable: Set[int], siblings: Callable[[int], frozenset[int]] = siblings_of) -> Division:
    """The last processor for the host, with those that share its core where they are not needed; the others for the workers."""
    if len(usable) <= threads:
        return Division()
    last = max(usable)
    core = siblings(last) & usable
    host = core if len(usable - core) >= threads else {last}
    return Division(_apart(usable - host, siblings), sorted(host))


def _apart(cpus: Iterable[int], siblings: Callable[[int], frozenset[int]]) -> list[int]:
    """First one processor of each core, then the second of each: threads that are bound in this order share no core needlessly."""
    return sorted(cpus, key=lambda cpu: (sorted(siblings(cpu)).index(cpu), cpu))


@contextmanager
def aside(cpus: Collection[int], processes: Iterable[int]) -> Iterator[None]:
    """While in it, all threads of these processes run on these processors only; empty: they stay where they are."""
    before = {thread: os.sched_getaffinity(thread) for thread in _threads(processes)} if cpus else {}
    for thread in before:
        _move(thread, cpus)
    try:
        yield
    finally:
        for thread, where in before.items():
            _move(thread, where)


def _move(thread: int, cpus: Iterable[int]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.sched_setaffinity(thread, cpus)


def _threads(processes: Iterable[int]) -> list[int]:
    found: list[int] = []
    for process in processes:
        with contextlib.suppress(FileNotFoundError):  # likewise
            found += [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    return found
