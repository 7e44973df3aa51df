"""What went on around a round, told by witnesses that know nothing of the backend and cost its calls nothing.

Each is read before and after, never in between: a ticking thread would disturb what it is to watch.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.worker.probe import ProbeReading
from harness.worker.timing import Clock, Integers

NS = 1_000_000_000
TICK_NS = NS // os.sysconf("SC_CLK_TCK")

STOP_NS = NS
"""A process that stood still for less is not told from one that had to wait: its calls are just slow."""

CLOCKS_APART_NS = 1_000_000
"""Two clocks read one after the other differ by microseconds without any suspension."""

STOP_TIMES_THE_MEDIAN = 10
"""A call that takes a second is no stop where calls take half of one."""

T = TypeVar("T")


@dataclass(frozen=True)
class Surroundings:
    """Of one round."""

    probe_ns: dict[str, list[int]]  # by kind: the units before the round, then those after it
    foreign_share: float | None  # 0 to 1, of the processors' time; None: not told here
    stops: list[str]  # what says that the process or the machine stood still, in words


class Continuations:
    """Counts how often this process was continued after a stop. The kernel keeps no record: the signal is all there is."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """From now on. To be called in the main thread."""
        signal.signal(signal.SIGCONT, self._heard)
        signal.siginterrupt(signal.SIGCONT, False)  # a read that a stop has interrupted goes on

    def _heard(self, number: int, frame: object) -> None:  # noqa: ARG002 - what a handler is given
        self.count += 1


class Witness:
    """Watches rounds of this process."""

    def __init__(
        self,
        probe: Callable[[], ProbeReading],
        continuations: Continuations,
        clock: Clock,
        proc: Path = Path("/proc"),
    ) -> None:
        self._probe = probe
        self._continuations = continuations
        self._clock = clock
        self._proc = proc
        self._usable = os.sched_getaffinity(0)

    def watch(self, stretch: Callable[[], T], cpus: Sequence[int] = ()) -> tuple[T, Surroundings]:
        """Make the calls and tell what went on. `cpus`: the only ones that this process uses meanwhile; empty: all it may."""
        probe_before = self._probe()
        before = self._read(set(cpus) or self._usable)
        result = stretch()
        after = self._read(set(cpus) or self._usable)
        probe_after = self._probe()
        probe_ns = {kind: [*units, *probe_after[kind]] for kind, units in probe_before.items()}
        return result, Surroundings(probe_ns, foreign_share(before, after), _stops(before, after))

    def _read(self, cpus: Set[int]) -> Reading:
        return Reading(
            now_ns=self._clock(),
            suspended_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC),
            continued=self._continuations.count,
            own_ns=time.process_time_ns(),
            busy_ns=busy_ns(self._proc / "stat", cpus),
            cpus=len(cpus),
        )


@dataclass(frozen=True)
class Reading:
    """What the witnesses say at one time."""

    now_ns: int
    suspended_ns: int  # how long the machine has slept since it started: what one clock counts and the other does not
    continued: int  # how often this process was continued after a stop
    own_ns: int  # CPU time of this process, all its threads
    busy_ns: int | None  # what all processes had of the processors, and what a hypervisor took of them; None: not told
    cpus: int


def foreign_share(before: Reading, after: Reading) -> float | None:
    """The part of the processors' time that others had. The kernel counts it in ticks: what these can make up is not counted."""
    elapsed_ns = (after.now_ns - before.now_ns) * after.cpus
    if before.busy_ns is None or after.busy_ns is None or elapsed_ns <= 0:
        return None
    own_ns = after.own_ns - before.own_ns
    foreign_ns = after.busy_ns - before.busy_ns - own_ns - after.cpus * TICK_NS
    return min(max(foreign_ns, 0) / elapsed_ns, 1.0)


def busy_ns(stat: Path, cpus: Set[int]) -> int | None:
    """CPU time of everybody on these processors since the machine started, time stolen by a hypervisor included (proc(5))."""
    try:
        lines = [line.split() for line in stat.read_text().splitlines()]
    except OSError:
        return None
    wanted = {f"cpu{cpu}" for cpu in cpus}
    found = [list(map(int, fields[1:])) for fields in lines if fields and fields[0] in wanted]
    if len(found) < len(wanted):
        return None
    # user, nice, system, then idle and waiting, which are not, interrupts of both kinds, stolen; guests are in user.
    return sum(sum(ticks[:3]) + sum(ticks[5:8]) for ticks in found) * TICK_NS


def long_call(total_ns: Integers, compiled: Integers, slot: Integers | None = None) -> list[str]:
    """A sentence where a call took so much longer than the others that the process, or all it waits for, stood still.

    The last resort, for what leaves no other trace: a frozen container, a paused machine. Not for calls that compiled. `slot`:
    of each call, where those of one slot are compared with one another alone, as their texts end at other lengths.
    """
    parts = [np.ones(len(total_ns), bool)] if slot is None else [slot == each for each in np.unique(slot)]
    return [stop for part in parts for stop in _long_one(total_ns[part & (compiled == 0)])]


def _long_one(steady_ns: Integers) -> list[str]:
    if not len(steady_ns):
        return []
    longest, median = int(steady_ns.max()), float(np.median(steady_ns))
    if longest - median < STOP_NS or longest < STOP_TIMES_THE_MEDIAN * median:
        return []
    return [f"a call took {longest / NS:.1f} s, the median call {median / NS:.3g} s"]


def long_stretch(elapsed_ns: int, expected_ns: int) -> list[str]:
    """The same for calls back to back, of which only the sum is known."""
    if elapsed_ns - expected_ns < STOP_NS or elapsed_ns < 2 * expected_ns:
        return []
    return [f"calls back to back took {elapsed_ns / NS:.1f} s where {expected_ns / NS:.1f} s were expected"]


def _stops(before: Reading, after: Reading) -> list[str]:
    stops = []
    suspended_ns = after.suspended_ns - before.suspended_ns
    if suspended_ns > CLOCKS_APART_NS:
        stops.append(f"the machine was suspended for {suspended_ns / NS:.1f} s")
    if after.continued > before.continued:
        stops.append("the process was stopped and continued (SIGCONT)")
    return stops
