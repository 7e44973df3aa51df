"""When a launch is warm: detected from the samples themselves, by the rule of docs/methodology.md.

The warm-up ends at the earliest call after which three windows follow whose medians agree and during which nothing was
compiled. Medians, because one disturbed call is no reason to go on; three windows, because two agree by chance too often
(Barrett et al. 2017, Traini et al. 2022).
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

from harness.protocol import WarmedUp, WarmUp
from harness.worker.timing import Clock, Integers, LatencyStretch, TimingLoop

WINDOWS = 3
MAX_DISCARDED = 10_000
"""Samples told to the host; their line must stay under MAX_LINE_BYTES."""


class SettlingDetector:
    """Finds the end of a warm-up in a growing series of samples. No clock, no input or output.

    Each call is tried once as the last of the warm-up: what its windows hold does not change when more samples come.
    """

    def __init__(self, window_calls: int, window_ns: int, tolerance: float) -> None:
        """A window is the fewest calls that are at least `window_calls` and take at least `window_ns`."""
        self._window_calls = max(window_calls, 1)
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
        ends: Integers = np.maximum(np.arange(calls) + self._window_calls, by_time)
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


def warm_up(loop: TimingLoop, settings: WarmUp, clock: Clock = time.perf_counter_ns) -> WarmedUp:
    """Call until settled or until `limit_ns` is over, looking at the samples only when another window has gone by."""
    detector = SettlingDetector(settings.window_calls, settings.window_ns, settings.tolerance)
    deadline_ns = clock() + settings.limit_ns
    stretches: list[LatencyStretch] = []
    while True:
        stretches.append(loop.latency(settings.window_calls, settings.window_ns, deadline_ns - clock()))
        total_ns = np.concatenate([stretch.total_ns for stretch in stretches])
        compiled = np.concatenate([stretch.compiled for stretch in stretches])
        settled_after = detector.settled_after(total_ns, compiled)
        if settled_after is not None or clock() >= deadline_ns:
            return _warmed_up(total_ns, settled_after, int(stretches[-1].compilations[-1]))


def _warmed_up(total_ns: Integers, settled_after: int | None, compilations: int) -> WarmedUp:
    calls = len(total_ns) if settled_after is None else settled_after
    return WarmedUp(
        settled=settled_after is not None,
        calls=calls,
        elapsed_ns=int(total_ns[:calls].sum()),
        discarded_ns=total_ns[:MAX_DISCARDED].tolist(),
        compilations=compilations,
    )
