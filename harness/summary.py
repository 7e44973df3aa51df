"""From launches to a result: pure, except for reading the raw samples that the launches left.

Unit by unit: samples -> a launch's median -> the median over launches. Never one pooled mean. What is not known stays null,
and `reasons` says why.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import stats
from harness.model import (
    CellError,
    LaunchRecord,
    LaunchSummary,
    Measurements,
    RoundRecord,
    Status,
)

NS = 1e9
PHASES = ("load", "prepare", "compile", "first_call")
GATES = (Status.PARITY_FAILED, Status.MISMATCH, Status.UNSTABLE, Status.UNVERIFIED)
"""Statuses of launches that went to their end, in the order in which they take precedence."""

Samples = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeasuredLaunch:
    """A launch with its raw samples: nanoseconds per call, those during which something was compiled left out."""

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
        rounds = [r for r in self.record.rounds if r.mode == "throughput"]
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


def read_launch(record: LaunchRecord, folder: Path, root: Path) -> MeasuredLaunch:
    """Read a launch's raw samples from its folder; a round whose file is missing or broken counts as not measured."""
    rounds = [_read_round(r, folder) for r in record.rounds if r.file]
    samples = np.concatenate(rounds) if rounds else np.empty(0, np.int64)
    return MeasuredLaunch(record, samples, str(folder.relative_to(root)))


def _read_round(record: RoundRecord, folder: Path) -> Samples:
    assert record.file is not None
    try:
        with np.load(folder / record.file, allow_pickle=False) as arrays:
            total, compiled = arrays["total_ns"], arrays["compiled"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return np.empty(0, np.int64)
    steady: Samples = total[compiled == 0]
    return steady


def overall_status(launches: Sequence[LaunchRecord]) -> tuple[Status, CellError | None]:
    """The first launch that ended early decides; else the gate of highest precedence; else ok."""
    for launch in launches:
        if launch.status is not Status.OK and launch.status not in GATES:
            return launch.status, launch.error
    for gate in GATES:
        for launch in launches:
            if launch.status is gate:
                return gate, launch.error
    return Status.OK, None


def measure(launches: Sequence[MeasuredLaunch], baseline: Sequence[MeasuredLaunch] | None) -> Measurements:
    """All numbers of one cell with launches.

    `baseline`: the launches of the group's baseline, None where it has none, the same object as `launches` for the baseline.
    """
    return _Summary(launches, baseline).measurements()


def nothing_measured(reason: str) -> Measurements:
    """Of a cell that no worker was started for: every number is null for the one reason."""
    numbers = (name for name, field in Measurements.model_fields.items() if field.default is None)
    return Measurements(reasons=dict.fromkeys(numbers, reason))


class _Summary:
    def __init__(self, launches: Sequence[MeasuredLaunch], baseline: Sequence[MeasuredLaunch] | None) -> None:
        self._launches = launches
        self._baseline = baseline
        self._reasons: dict[str, str] = {}

    def measurements(self) -> Measurements:
        pairs = self._pairs()
        break_even = self._break_even(pairs)
        return Measurements(
            import_s=self._over_launches("import_s", (_seconds(x.record.import_ns) for x in self._launches)),
            load_s=self._phase("load"),
            prepare_s=self._phase("prepare"),
            compile_s=self._phase("compile"),
            first_call_s=self._phase("first_call"),
            cold_start_s=self._over_launches(
                "cold_start_s", (_seconds(x.record.cold_start_ns) for x in self._launches)
            ),
            cold_start_residual_s=self._over_launches("cold_start_residual_s", map(_residual_s, self._launches)),
            warm_up_s=self._over_launches("warm_up_s", map(_warm_up_s, self._launches)),
            warm_up_calls=self._warm_up_calls(),
            median_latency_s=self._latency(),
            latency_iqr_s=self._iqr(),
            throughput=self._over_launches("throughput", (x.throughput for x in self._launches)),
            throughput_unit=self._unit(),
            break_even_calls=break_even.calls if break_even and break_even.kind in ("always", "after") else None,
            break_even=self._break_even_words(break_even),
            ratio_to_baseline=self._ratio(pairs),
            parity_max_abs=self._parity_max_abs(),
            parity_passed=self._parity_passed(),
            peak_rss_bytes=self._peak_rss(),
            launches=len(self._launches),
            samples=sum(len(x.samples) for x in self._launches),
            per_launch=[_launch_summary(x) for x in self._launches],
            reasons=self._reasons,
        )

    def _over_launches(self, field: str, values: Iterable[float | None], reason: str | None = None) -> float | None:
        known = [value for value in values if value is not None]
        if not known:
            self._reasons[field] = reason or self._not_reached()
        return stats.median(known)

    def _not_reached(self) -> str:
        status, error = overall_status([x.record for x in self._launches])
        return f"{status} in {error.stage}" if error and error.stage else f"not measured: {status}"

    def _phase(self, phase: str) -> float | None:
        reason = next(
            (x.record.not_applicable[phase] for x in self._launches if phase in x.record.not_applicable), None
        )
        return self._over_launches(f"{phase}_s", (_phase_s(x.record, phase) for x in self._launches), reason)

    def _warm_up_calls(self) -> int | None:
        calls = (float(x.record.warm_up.calls) for x in self._launches if x.record.warm_up)
        value = self._over_launches("warm_up_calls", calls)
        return None if value is None else math.floor(value)

    def _latency(self) -> float | None:
        too_short = any(len(x.samples) and x.median_latency_s is None for x in self._launches)
        reason = "a call takes under 100 µs: too short to time one by one, see throughput" if too_short else None
        return self._over_launches("median_latency_s", (x.median_latency_s for x in self._launches), reason)

    def _iqr(self) -> float | None:
        pooled = [x.samples for x in self._launches if x.median_latency_s is not None]
        value = stats.interquartile_range(np.concatenate(pooled)) if pooled else None
        if value is None:
            self._reasons["latency_iqr_s"] = self._reasons.get("median_latency_s", "fewer than four samples")
        return None if value is None else value / NS

    def _unit(self) -> str | None:
        name = next((next(iter(x.record.items)) for x in self._launches if x.record.items), None)
        if name is None:
            self._reasons["throughput_unit"] = self._not_reached()
        return f"{name}/s" if name else None

    def _parity_max_abs(self) -> float | None:
        known = [p.max_abs for x in self._launches for p in x.record.parity if p.max_abs is not None]
        if not known:
            self._reasons["parity_max_abs"] = self._parity_reason()
        return max(known, default=None)

    def _parity_passed(self) -> bool | None:
        verdicts = [p.passed for x in self._launches for p in x.record.parity]
        if not verdicts:
            self._reasons["parity_passed"] = self._parity_reason()
        return all(verdicts) if verdicts else None

    def _parity_reason(self) -> str:
        messages = [p.message for x in self._launches for p in x.record.parity if p.message]
        return messages[0] if messages else self._not_reached()

    def _peak_rss(self) -> int | None:
        values = [x.record.memory_bytes.get("peak_rss_bytes") for x in self._launches]
        known = [value for value in values if value is not None]
        if not known:
            told = (x.record.memory_reasons.get("peak_rss_bytes") for x in self._launches)
            self._reasons["peak_rss_bytes"] = next((reason for reason in told if reason), self._not_reached())
        return max(known, default=None)

    # --- against the baseline ---------------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[MeasuredLaunch, MeasuredLaunch]]:
        """(this cell's launch, the baseline's) of each block that has both: only what was measured together compares."""
        of_block = {x.record.block_id: x for x in self._baseline or ()}
        return [(x, of_block[x.record.block_id]) for x in self._launches if x.record.block_id in of_block]

    def _ratio(self, pairs: Sequence[tuple[MeasuredLaunch, MeasuredLaunch]]) -> float | None:
        """Geometric mean over blocks of the baseline's median latency over this cell's."""
        logs = [
            math.log(base.median_latency_s / mine.median_latency_s)
            for mine, base in pairs
            if mine.median_latency_s and base.median_latency_s
        ]
        if not logs:
            self._reasons["ratio_to_baseline"] = self._unpaired()
        return math.exp(sum(logs) / len(logs)) if logs else None

    def _break_even(self, pairs: Sequence[tuple[MeasuredLaunch, MeasuredLaunch]]) -> stats.BreakEven | None:
        mine, base = [m for m, _ in pairs], [b for _, b in pairs]
        numbers = [_start_s(mine), _latency_s(mine), _start_s(base), _latency_s(base)]
        known = [number for number in numbers if number is not None]
        return stats.break_even(*known) if len(known) == 4 and not self._is_baseline else None

    def _break_even_words(self, break_even: stats.BreakEven | None) -> str | None:
        if self._is_baseline:
            self._reasons["break_even_calls"] = "this is the baseline"
            return "baseline"
        if break_even is None:
            self._reasons["break_even"] = self._reasons["break_even_calls"] = self._unpaired()
            return None
        if break_even.kind in ("until", "never"):
            self._reasons["break_even_calls"] = str(break_even)
        return str(break_even)

    @property
    def _is_baseline(self) -> bool:
        return self._launches is self._baseline

    def _unpaired(self) -> str:
        if self._baseline is None:
            return "no baseline in this workload"
        if not any(x.median_latency_s for x in self._launches):
            return self._not_reached()
        if not any(x.median_latency_s for x in self._baseline):
            return "the baseline has no latency"
        return "not measured in a block together with the baseline; --fresh measures all anew"


def _start_s(launches: Sequence[MeasuredLaunch]) -> float | None:
    return stats.median([x.start_s for x in launches if x.start_s is not None])


def _latency_s(launches: Sequence[MeasuredLaunch]) -> float | None:
    return stats.median([x.median_latency_s for x in launches if x.median_latency_s is not None])


def _seconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / NS


def _phase_s(record: LaunchRecord, phase: str) -> float | None:
    durations = [stage.duration_ns for stage in record.stages if stage.phase == phase]
    return sum(durations) / NS if durations else None


def _residual_s(launch: MeasuredLaunch) -> float | None:
    if launch.record.cold_start_ns is None:
        return None
    return (launch.record.cold_start_ns - sum(s.duration_ns for s in launch.record.stages)) / NS


def _warm_up_s(launch: MeasuredLaunch) -> float | None:
    return launch.record.warm_up.elapsed_ns / NS if launch.record.warm_up else None


def _launch_summary(launch: MeasuredLaunch) -> LaunchSummary:
    return LaunchSummary(
        launch_id=launch.record.launch_id,
        block_id=launch.record.block_id,
        folder=launch.folder,
        status=launch.record.status,
        median_latency_s=launch.median_latency_s,
        throughput=launch.throughput,
        samples=len(launch.samples),
        cold_start_s=_seconds(launch.record.cold_start_ns),
    )
