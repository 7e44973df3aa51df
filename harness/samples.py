"""One launch with its raw samples, as summaries and comparisons want it: nanoseconds per call from the files that it left."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import stats
from harness.model import LaunchRecord, RoundRecord

NS = 1e9

Samples = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeasuredLaunch:
    """A launch with its steady samples: nanoseconds per call, without those during which something was compiled."""

    record: LaunchRecord
    samples: Samples
    folder: str  # relative to the results directory

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
        return next(iter(self.record.items.values())) * sum(r.calls for r in rounds) / (elapsed_ns / NS)

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
    rounds = [
        _read_round(r.file, folder) for r in undisturbed([r for r in record.rounds if r.mode == "latency"]) if r.file
    ]
    samples = np.concatenate(rounds) if rounds else np.empty(0, np.int64)
    return MeasuredLaunch(record, samples, str(folder.relative_to(root)))


def undisturbed(rounds: Sequence[RoundRecord]) -> Sequence[RoundRecord]:
    """Those that nothing disturbed; all, where that leaves none: a noisy number, counted as such, is more than none."""
    return [r for r in rounds if not r.disturbed] or rounds


def _read_round(file: str, folder: Path) -> Samples:
    try:
        with np.load(folder / file, allow_pickle=False) as arrays:
            total, compiled = arrays["total_ns"], arrays["compiled"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return np.empty(0, np.int64)
    steady: Samples = total[compiled == 0]
    return steady
