"""When a launch is warm: detected from the samples themselves, by the rule of docs/methodology.md.

The warm-up ends at the earliest call after which three windows follow whose medians agree and during which nothing was
compiled. Medians, because one disturbed call is no reason to go on; three windows, because two agree by chance too often
(Barrett et al. 2017, Traini et al. 2022).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

from harness.protocol import WarmedUp, WarmUp
from harness.worker.ledger import CompileLedger
from harness.worker.probe import has_moved
from harness.worker.surroundings import Surroundings
from harness.worker.timing import Clock, Integers, LatencyStretch, TimingLoop, whole_of

WINDOWS = 3
MAX_DISCARDED = 10_000
"""Samples told to the host; their line must stay under MAX_LINE_BYTES."""


class SettlingDetector:
    """Finds the end of a warm-up in a growing series of samples. No clock, no input or output.

    Each call is tried once as the last of the warm-up: what its windows hold does not change when more samples come.
    """

    def __init__(self, window_calls: int, window_ns: int, tolerance: float, calls_together: int = 1) -> None:
        """A window is the fewest calls that are at least `window_calls` and take at least `window_ns`, and as many of each step
        where `calls_together` differ from one another: else windows would differ by what steps they happen to hold."""
        self._window_calls = max(window_calls, 1)
        self._calls_together = calls_together
        self._window_ns = window_ns
        self._tolerance = tolerance
        self._start = 0
        self._medians: dict[int, float] = {}

    def settled_after(self, total_ns: Integers, compiled: Integers) -> int | None:
        """The number of calls before the latency had settled, or None where no call is known yet to be the last.

        `total_ns` and `compiled` (compilations during each call), both of (calls,), are the whole series so far.
        """
        ends = self._window_ends(total_ns)
        compiled_before = np.concatenate(([0], np.cumsum(compiled)))
        while (bounds := self._bounds(ends)) is not None:
            is_quiet = compiled_before[bounds[-1]] == compiled_before[bounds[0]]
            if is_quiet and self._agree([self._median(total_ns, a, b) for a, b in pairwise(bounds)]):
                return self._start
            self._medians.pop(self._start, None)
            self._start += 1
        return None

    def _window_ends(self, total_ns: Integers) -> Integers:
        """For each call, where a window that starts with it ends (exclusive); beyond the series where it is not full."""
        calls = len(total_ns)
        time_before = np.concatenate(([0], np.cumsum(total_ns)))
        by_time = np.searchsorted(time_before, time_before[:-1] + self._window_ns, side="left")
        lengths = np.maximum(by_time - np.arange(calls), self._window_calls)
        ends: Integers = np.arange(calls) + whole_of(lengths, self._calls_together)
        return ends

    def _bounds(self, ends: Integers) -> list[int] | None:
        """Start of the first window and ends of all; None where the series does not hold them yet."""
        bounds = [self._start]
        for _ in range(WINDOWS):
            if bounds[-1] >= len(ends) or ends[bounds[-1]] > len(ends):
                return None
            bounds.append(int(ends[bounds[-1]]))
        return bounds

    def _median(self, total_ns: Integers, start: int, end: int) -> float:
        """Kept by start: a window is the third of one call, then the second of a later one, then the first."""
        if start not in self._medians:
            self._medians[start] = float(np.median(total_ns[start:end]))
        return self._medians[start]

    def _agree(self, medians: list[float]) -> bool:
        return max(medians) <= min(medians) * (1 + self._tolerance)


Watch = Callable[[Callable[[], LatencyStretch]], tuple[LatencyStretch, Surroundings]]
"""Makes the calls of a stretch, and tells what went on around them."""


def warm_up(
    loop: TimingLoop,
    settings: WarmUp,
    watch: Watch,
    ledger: CompileLedger,
    clock: Clock = time.perf_counter_ns,
) -> WarmedUp:
    """Call until settled or until `limit_ns` is over, looking at the samples only when another window has gone by."""
    settings = replace(settings, window_calls=whole_of(settings.window_calls, loop.calls_together))
    window = (settings.window_calls, settings.window_ns, settings.tolerance)
    detector = SettlingDetector(*window, loop.calls_together)
    deadline_ns = clock() + settings.limit_ns
    series = _Series([], [])
    while True:
        left_ns = deadline_ns - clock()
        series.add(*watch(lambda: loop.latency(settings.window_calls, settings.window_ns, left_ns)))  # noqa: B023 - called at once
        settled_after = detector.settled_after(series.total_ns, series.compiled)
        if settled_after is not None or clock() >= deadline_ns:
            return _warmed_up(series, settled_after, settings, ledger)


@dataclass(frozen=True)
class _Series:
    """Stretches, and what went on around each."""

    stretches: list[LatencyStretch]
    surroundings: list[Surroundings]

    def add(self, stretch: LatencyStretch, surroundings: Surroundings) -> None:
        self.stretches.append(stretch)
        self.surroundings.append(surroundings)

    @property
    def total_ns(self) -> Integers:
        return np.concatenate([stretch.total_ns for stretch in self.stretches])

    @property
    def compiled(self) -> Integers:
        return np.concatenate([stretch.compiled for stretch in self.stretches])

    def split(self, call: int) -> tuple[list[Surroundings], list[Surroundings]]:
        """Of the stretches that began before this call, and of the others."""
        starts = np.cumsum([0, *(len(stretch.total_ns) for stretch in self.stretches)])[:-1]
        parts = list(zip(starts, self.surroundings, strict=True))
        return [each for start, each in parts if start < call], [each for start, each in parts if start >= call]


def _warmed_up(series: _Series, settled_after: int | None, settings: WarmUp, ledger: CompileLedger) -> WarmedUp:
    total_ns = series.total_ns
    calls = len(total_ns) if settled_after is None else settled_after
    was_machine = settled_after is not None and _machine_moved(*series.split(settled_after), settings)
    warm_up_calls = 0 if was_machine else calls
    compiled_count, compiled_ns = ledger.take()
    return WarmedUp(
        settled=settled_after is not None,
        calls=warm_up_calls,
        elapsed_ns=int(total_ns[:warm_up_calls].sum()),
        discarded_ns=total_ns[:MAX_DISCARDED].tolist(),
        compilations=int(series.stretches[-1].compilations[-1]),
        disturbed_calls=calls - warm_up_calls,
        reason=_why_unsettled(series, settings) if settled_after is None else None,
        compiled_count=compiled_count,
        compiled_ns=compiled_ns,
    )


def _why_unsettled(series: _Series, settings: WarmUp) -> str:
    """The first of these that holds; the last one is the backend's own doing."""
    compiled, calls = series.compiled, len(series.compiled)
    if compiled[-WINDOWS * max(settings.window_calls, 1) :].any():
        return "recompiling"
    if calls < WINDOWS * settings.window_calls or series.total_ns.sum() < WINDOWS * settings.window_ns:
        return "short"
    return "disturbed" if _machine_moved(*series.split(calls // 2), settings) else "unsteady"


def _machine_moved(before: Sequence[Surroundings], after: Sequence[Surroundings], settings: WarmUp) -> bool:
    """Whether the machine changed between these stretches: its speed, or how much of it others had."""
    if not before or not after:
        return False
    shares = [[each.foreign_share for each in part if each.foreign_share is not None] for part in (before, after)]
    others_came_or_went = all(shares) and abs(median(shares[0]) - median(shares[1])) > settings.foreign_tolerance
    probes = [[each.probe_ns for each in part] for part in (before, after)]
    return others_came_or_went or has_moved(probes[0], probes[1], settings.probe_tolerance)
