"""One launch with its raw samples, as summaries and comparisons want it: nanoseconds per call from the files that it left."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import stats
from harness.model import LaunchRecord, RoundRecord

NS = 1e9

Samples = npt.NDArray[np.int64]

_ARRAYS = {"latency": ("total_ns", "compiled"), "marked": ("total_ns", "compiled", "mark_ns")}
"""By mode, those of a round's file that numbers are made of."""


@dataclass(frozen=True, eq=False)
class MarkedSamples:
    """Calls of marked rounds, likewise: what each took, and when it stamped what."""

    names: tuple[str, ...]  # of its stamps, in order; empty where calls stamp nothing
    total_ns: Samples  # (calls,)
    mark_ns: Samples  # (calls, stamps): since the start of each call


@dataclass(frozen=True, eq=False)
class MeasuredLaunch:
    """A launch with its steady samples: nanoseconds per call, without those during which something was compiled."""

    record: LaunchRecord
    samples: Samples
    folder: str  # relative to the results directory
    marked: MarkedSamples | None = None  # None: without marked rounds

    @property
    def median_latency_s(self) -> float | None:
        value = stats.median(self.samples)
        return None if value is None or value / NS < stats.SHORTEST_TIMED_CALL_S else value / NS

    @property
    def throughput(self) -> float | None:
        """Items per second over the throughput rounds: all calls, all time."""
        rounds = undisturbed([r for r in self.record.rounds if r.mode == "throughput"])
        elapsed_ns = sum(r.elapsed_ns for r in rounds)
        if not elapsed_ns or not self.record.items:
            return None
        return next(iter(self.record.items_per_call.values())) * sum(r.calls for r in rounds) / (elapsed_ns / NS)

    @property
    def start_s(self) -> float | None:
        """Seconds from nothing to steady, less what the warm-up's calls would have cost at steady speed."""
        if self.record.cold_start_ns is None or self.record.warm_up is None or not len(self.samples):
            return None
        steady_ns = float(np.median(self.samples)) * self.record.warm_up.calls
        return (self.record.cold_start_ns + max(self.record.warm_up.elapsed_ns - steady_ns, 0)) / NS

    @property
    def cost(self) -> stats.Cost | None:
        """What its calls cost, the start included."""
        start_s, call_s = self.start_s, self.median_latency_s
        return None if start_s is None or call_s is None else stats.Cost(start_s, call_s)


def read_launch(record: LaunchRecord, folder: Path, root: Path) -> MeasuredLaunch:
    """Read a launch's raw samples from its folder; a round whose file is missing or broken counts as not measured."""
    samples = [_steady(arrays, "total_ns") for _, arrays in _read_rounds(record, "latency", folder)]
    together = np.concatenate(samples) if samples else np.empty(0, np.int64)
    return MeasuredLaunch(record, together, str(folder.relative_to(root)), _read_marked(record, folder))


def _read_marked(record: LaunchRecord, folder: Path) -> MarkedSamples | None:
    """Of the rounds that stamped what the first one did."""
    rounds = _read_rounds(record, "marked", folder)
    if not rounds:
        return None
    names = rounds[0][0].marks
    alike = [arrays for each, arrays in rounds if each.marks == names]
    together = (np.concatenate([_steady(arrays, name) for arrays in alike]) for name in ("total_ns", "mark_ns"))
    return MarkedSamples(tuple(names), *together)


def undisturbed(rounds: Sequence[RoundRecord]) -> Sequence[RoundRecord]:
    """Those that nothing disturbed; all, where that leaves none: a noisy number, counted as such, is more than none."""
    return [r for r in rounds if not r.disturbed] or rounds


def _read_rounds(record: LaunchRecord, mode: str, folder: Path) -> list[tuple[RoundRecord, Mapping[str, Samples]]]:
    """Rounds of a mode that count, each with its arrays."""
    counted = undisturbed([r for r in record.rounds if r.mode == mode])
    read = [(r, _read_arrays(folder / r.file, _ARRAYS[mode])) for r in counted if r.file]
    return [(r, arrays) for r, arrays in read if arrays]


def _read_arrays(file: Path, names: Sequence[str]) -> Mapping[str, Samples]:
    """Those of these names; none where one is missing or the file is broken."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return {}


def _steady(arrays: Mapping[str, Samples], name: str) -> Samples:
    steady: Samples = arrays[name][arrays["compiled"] == 0]
    return steady
