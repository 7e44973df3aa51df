"""Which processors the threads of this process run on while a round runs; at any other time they are left alone.

One mechanism only, `sched_setaffinity` for each thread, and only within rounds: what a thread starts inherits where it may run,
so a compiler, or a pool of threads made later, must never be started by one that is bound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.worker.processes import threads_cpu_ns

TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Placed:
    """Where threads were while a round ran, read back."""

    bound: list[int] = field(default_factory=list)  # the processor of each bound thread
    reason: str | None = None  # why it is not as asked


class Affinity:
    """Keeps the threads of this process to some processors, or binds the busiest to one each."""

    def __init__(self, threads: int, probing_round: Callable[[], object], tasks: Path = TASKS) -> None:
        """`threads`: how many compute, and so are bound. `probing_round` makes calls, by which the busiest show."""
        self._threads = threads
        self._probing_round = probing_round
        self._tasks = tasks
        self._everywhere = os.sched_getaffinity(0)

    @contextmanager
    def kept(self, cpus: Sequence[int], *, bind: bool) -> Iterator[Placed]:
        """While in it, all threads run on `cpus` (any that this process may use, where it is empty); with `bind`, the busiest each
        on one of its own. Whatever does not take is told, not raised: the round is made all the same."""
        if not cpus and not bind:
            yield Placed()
            return
        allowed = sorted(cpus or self._everywhere)
        try:
            yield self._place(allowed, bind=bind)
        finally:
            self._place_all(self._everywhere)

    def _place(self, cpus: Sequence[int], *, bind: bool) -> Placed:
        try:
            self._place_all(cpus)
            return Placed(self._bind(cpus)) if bind else Placed()
        except OSError as error:
            return Placed(reason=f"threads could not be placed: {error.strerror}")

    def _place_all(self, cpus: Iterable[int]) -> None:
        for thread in self._thread_ids():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(thread, cpus)

    def _bind(self, cpus: Sequence[int]) -> list[int]:
        """The busiest threads, one on each processor. Raises OSError, also where a thread is not where it was put."""
        busiest = self._busiest()[: len(cpus)]
        for thread, cpu in zip(busiest, cpus, strict=False):
            os.sched_setaffinity(thread, {cpu})
        seen = [sorted(os.sched_getaffinity(thread)) for thread in busiest]
        if not seen or any(len(cpus_of_thread) != 1 for cpus_of_thread in seen):
            raise OSError(0, f"after binding {len(busiest)} of them to one of {list(cpus)} each, they are on {seen}")
        return [cpu for (cpu,) in seen]

    def _busiest(self) -> list[int]:
        """Ids of the threads that had most CPU time in a probing round, at most as many as compute."""
        before = threads_cpu_ns(self._tasks)
        self._probing_round()
        used = {thread: cpu_ns - before.get(thread, 0) for thread, cpu_ns in threads_cpu_ns(self._tasks).items()}
        busy = [thread for thread, used_ns in used.items() if used_ns > 0]
        return sorted(busy, key=lambda thread: used[thread], reverse=True)[: self._threads]

    def _thread_ids(self) -> list[int]:
        return sorted(int(task.name) for task in self._tasks.iterdir())
