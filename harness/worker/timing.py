"""The one timing loop, for every backend and every kind of stretch: settling, warm-up, rounds, the memory pass.

A sample is one `call` and its `wait`, in integer nanoseconds of a monotonic clock, subtracted before anything else is done
with them. Between two samples the loop only keeps four integers; nothing is summarised here.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.protocol import Round
from harness.worker.api import Operation
from harness.worker.marks import Stamped, Stamps

Clock = Callable[[], int]
"""Nanoseconds, monotonic, from any origin."""

Integers = npt.NDArray[np.int64]

CLOCK_READS = 1001


@dataclass(frozen=True)
class LatencyStretch:
    """Samples in the order they were taken. All arrays are int64 of (calls,)."""

    total_ns: Integers  # call and wait
    call_ns: Integers  # the call alone; equal to total_ns where the backend is synchronous
    slot: Integers  # the input it ran on
    compilations: Integers  # the runner's counter after it
    compiled: Integers  # how far that counter moved during it: above 0, the sample is no steady one
    elapsed_ns: int  # from before the first call to after the last wait, all in between included

    def arrays(self) -> Mapping[str, Integers]:
        """What goes to disk."""
        names = ("total_ns", "call_ns", "slot", "compilations", "compiled")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ThroughputStretch:
    """Calls made back to back."""

    calls: int
    elapsed_ns: int  # all calls and the wait at the end
    expected_ns: int  # by the stretch before it, which settled
    compiled: int  # how far the runner's counter moved during it


class TimingLoop:
    """Calls an operation and times it. Slots rotate from begin to begin and go on rotating from stretch to stretch.

    Where a begin allows only so many calls, what is recorded ends with one that is used up: a step of decode depends on how
    many came before it, so every stretch has to have as many of each. Where slots take differently long, as texts that end early
    do, every stretch is of whole rotations, for the same reason.
    """

    def __init__(
        self,
        operation: Operation,
        slots: int,
        compilations: Callable[[], int],
        clock: Clock = time.perf_counter_ns,
        on_stretch: Callable[[LatencyStretch | ThroughputStretch], None] = lambda _: None,
        *,
        whole_rotations: bool = False,
    ) -> None:
        """`on_stretch` is told every stretch, settling or recorded, when its calls are over.

        `whole_rotations`: a rotation that was begun is ended, past any limit too.
        """
        self._operation = operation
        self._next_slot: Callable[[], int] = cycle(range(slots)).__next__
        self._compilations = compilations
        self._clock = clock
        self._on_stretch = on_stretch
        self._rotation = slots if whole_rotations else 1

    @property
    def calls_together(self) -> int:
        """Calls that come and go together: those of a begin, or of a whole rotation; else each by itself."""
        return self._rotation * (self._operation.calls_per_begin or 1)

    def latency_round(self, round_: Round) -> tuple[int, LatencyStretch]:
        """Unrecorded calls until settled, then recorded ones. Returns the number of the former, and the latter."""
        with _garbage_collector_off():
            settled = self._settle(round_, self._operation.call)
            measured = self._latency(round_.calls, round_.budget_ns, round_.limit_ns)
        return len(settled.total_ns), measured

    def marked_round(self, round_: Round) -> tuple[int, LatencyStretch, Stamped]:
        """The same of calls that stamp their parts, those that settle too; and what the recorded ones stamped."""
        settling, stamps = (Stamps(self._operation.call, self._clock) for _ in range(2))
        with _garbage_collector_off():
            settled = self._settle(round_, settling.call)
            measured = self._latency(round_.calls, round_.budget_ns, round_.limit_ns, stamps.call)
        return len(settled.total_ns), measured, stamps.stamped()

    def throughput_round(self, round_: Round) -> tuple[int, ThroughputStretch]:
        """Unrecorded calls until settled, then as many back to back as fill the budget by their measure."""
        with _garbage_collector_off():
            settle_calls, last = self._settle_back_to_back(round_)
            calls = whole_of(_calls_to_fill(round_, last, self.calls_together), self._rotation)
            return settle_calls, self._stretch(calls, last.elapsed_ns * calls // last.calls)

    def latency(self, calls: int, budget_ns: int = 0, limit_ns: int = sys.maxsize) -> LatencyStretch:
        """At least `calls` calls and `budget_ns`, but no new call after `limit_ns`. One call is always made."""
        with _garbage_collector_off():
            return self._latency(calls, budget_ns, limit_ns)

    def _settle(self, round_: Round, call: Callable[[], None]) -> LatencyStretch:
        return self._latency(round_.settle_calls, round_.settle_ns, round_.limit_ns, call, whole=False)

    def _latency(
        self, calls: int, budget_ns: int, limit_ns: int, call: Callable[[], None] | None = None, *, whole: bool = True
    ) -> LatencyStretch:
        """`call`: in place of the operation's own. `whole`: end with a begin that is used up, within the limit."""
        clock, operation, read_compilations = self._clock, self._operation, self._compilations
        begin, wait, calls_per_begin = operation.begin, operation.wait, operation.calls_per_begin or 1
        call = call or operation.call
        totals, returns, slots, compilations = (array("q") for _ in range(4))
        compilations_before = read_compilations()
        slot = calls_begun = elapsed_ns = 0
        first = clock()
        while (
            not totals
            or len(totals) % self._rotation
            or (elapsed_ns < limit_ns and (len(totals) < calls or elapsed_ns < budget_ns or (whole and calls_begun)))
        ):
            if not calls_begun:
                slot, calls_begun = self._next_slot(), calls_per_begin
                begin(slot)
            started = clock()
            call()
            returned = clock()
            wait()
            ended = clock()
            calls_begun -= 1
            totals.append(ended - started)
            returns.append(returned - started)
            slots.append(slot)
            compilations.append(read_compilations())
            elapsed_ns = ended - first
        after = _integers(compilations)
        compiled = np.diff(after, prepend=compilations_before)
        stretch = LatencyStretch(_integers(totals), _integers(returns), _integers(slots), after, compiled, elapsed_ns)
        self._on_stretch(stretch)
        return stretch

    def _settle_back_to_back(self, round_: Round) -> tuple[int, ThroughputStretch]:
        """Stretches of doubling length until settled. Returns all calls made, and the last, longest stretch."""
        calls, all_calls, all_ns, expected_ns = whole_of(max(round_.settle_calls, 1), self._rotation), 0, 0, 0
        while True:
            stretch = self._stretch(calls, expected_ns)
            all_calls, all_ns, expected_ns = all_calls + calls, all_ns + stretch.elapsed_ns, 2 * stretch.elapsed_ns
            if all_ns >= min(round_.settle_ns, round_.limit_ns):
                return all_calls, stretch
            calls *= 2

    def _stretch(self, calls: int, expected_ns: int) -> ThroughputStretch:
        compilations_before = self._compilations()
        elapsed_ns = self._back_to_back(calls)
        stretch = ThroughputStretch(calls, elapsed_ns, expected_ns, self._compilations() - compilations_before)
        self._on_stretch(stretch)
        return stretch

    def _back_to_back(self, calls: int) -> int:
        """Nanoseconds that `calls` calls and one wait take.

        Where a `begin` allows only so many calls, it comes between stretches and is not counted; each stretch has its wait.
        """
        calls_per_begin = self._operation.calls_per_begin
        if calls_per_begin is None:
            return self._stateless_stretch(calls)
        full, rest = divmod(calls, calls_per_begin)
        return sum(self._begun_stretch(part) for part in [calls_per_begin] * full + [rest] * bool(rest))

    def _stateless_stretch(self, calls: int) -> int:
        begin, call, next_slot = self._operation.begin, self._operation.call, self._next_slot
        started = self._clock()
        for _ in repeat(None, calls):
            begin(next_slot())
            call()
        self._operation.wait()
        return self._clock() - started

    def _begun_stretch(self, calls: int) -> int:
        call = self._operation.call
        self._operation.begin(self._next_slot())
        started = self._clock()
        for _ in repeat(None, calls):
            call()
        self._operation.wait()
        return self._clock() - started


def clock_cost_ns(clock: Clock = time.perf_counter_ns) -> int:
    """Median cost of reading the clock once, in nanoseconds: how much too long every sample is."""
    reads = [clock() for _ in range(CLOCK_READS)]
    return int(statistics.median(later - earlier for earlier, later in pairwise(reads)))


def whole_of(calls: Any, together: int) -> Any:
    """So many calls, a number or an array of them, or as few more as come together."""
    return -(-calls // together) * together


def _calls_to_fill(round_: Round, measured: ThroughputStretch, calls_together: int) -> int:
    """Calls that fill the budget, by a stretch just measured: at least those asked for, at most what the limit allows."""
    elapsed_ns = max(measured.elapsed_ns, 1)
    wanted = max(round_.calls, -(-round_.budget_ns * measured.calls // elapsed_ns))
    filling: int = whole_of(wanted, calls_together)
    return max(min(filling, round_.limit_ns * measured.calls // elapsed_ns), 1)


def _integers(values: array[int]) -> Integers:
    return np.frombuffer(values, np.int64)


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
