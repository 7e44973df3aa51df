"""The probe: a little work that is the same for every backend, to see whether the machine has changed its speed.

Arithmetic and copying, because a processor that clocks down slows the one and a neighbour who fills the cache the other. Each is
done in units of about a millisecond, five of them, of which readers take the median: one unit that was interrupted says nothing
about the machine. On one thread, and in the cache: copies from memory measured ten times as unsteady as the calls of any backend,
and two threads wait for each other, so that their time is the scheduler's. What a probe cannot see is told by
`harness.worker.surroundings`: who else had the processors while the calls were made.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.worker.timing import Clock

UNITS = 5
UNIT_NS = 1_000_000
COPIED_BYTES = 1 << 20
ELEMENTS = 1 << 14  # of float32: 64 KiB in, 64 KiB out

ProbeReading = Mapping[str, list[int]]
"""By kind (`arithmetic`, `copying`): nanoseconds of each unit, in the order in which they were done."""


class Probe:
    """Does its units whenever it is read. What a unit is, is fixed when the probe is made, for the life of the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        work = (_arithmetic(), _copying())
        self._kinds = [_Kind(one.__name__, one, self._repetitions(one)) for one in work]

    def __call__(self) -> ProbeReading:
        """Takes about twelve milliseconds: of each kind a unit that is not kept, for caches hold other things by now, then five."""
        return {
            kind.name: [self._unit_ns(kind.work, kind.repetitions) for _ in range(UNITS + 1)][1:]
            for kind in self._kinds
        }

    def _repetitions(self, work: Callable[[], object]) -> int:
        """How often makes a unit, by the fastest of some tries: the machine may be busy now."""
        once_ns = min(self._unit_ns(work, 10) for _ in range(UNITS + 1)) / 10
        return max(round(UNIT_NS / max(once_ns, 1)), 1)

    def _unit_ns(self, work: Callable[[], object], repetitions: int) -> int:
        started = self._clock()
        for _ in range(repetitions):
            work()
        return self._clock() - started


def has_moved(before: Sequence[ProbeReading], after: Sequence[ProbeReading], tolerance: float) -> bool:
    """Whether one kind's median over all units of `after` lies further than `tolerance` (a part) from that of `before`."""
    kinds = before[0].keys() if before and after else ()
    return any(abs(_median(after, kind) - _median(before, kind)) > tolerance * _median(before, kind) for kind in kinds)


def _median(readings: Sequence[ProbeReading], kind: str) -> float:
    return statistics.median(unit_ns for reading in readings for unit_ns in reading[kind])


@dataclass(frozen=True)
class _Kind:
    name: str
    work: Callable[[], object]
    repetitions: int


def _arithmetic() -> Callable[[], object]:
    values, squares = np.full(ELEMENTS, 1.0000001, np.float32), np.empty(ELEMENTS, np.float32)

    def arithmetic() -> None:
        np.multiply(values, values, out=squares)
        np.sqrt(squares, out=squares)

    return arithmetic


def _copying() -> Callable[[], object]:
    source, target = np.ones(COPIED_BYTES, np.uint8), np.empty(COPIED_BYTES, np.uint8)

    def copying() -> None:
        np.copyto(target, source)

    return copying
