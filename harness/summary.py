"""From launches to a result. Pure.

Unit by unit: samples -> a launch's median -> the median over launches. Never one pooled mean. What is not known stays null,
and `reasons` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from harness import comparison, stats
from harness.application import application_numbers
from harness.generation import generation_numbers
from harness.model import Cell, CellError, LaunchRecord, LaunchSummary, Measurements, Status
from harness.samples import NS, MeasuredLaunch, Samples
from harness.unknown import Unknown

PHASES = ("load", "prepare", "compile", "first_call")
GATES = (Status.PARITY_FAILED, Status.MISMATCH, Status.UNSTABLE, Status.UNVERIFIED)
"""Statuses of launches that went to their end, in the order in which they take precedence."""

UNTOLD = "the runner does not tell it"
TOKENS_ALONE = "judged by tokens alone"
TOO_SHORT = "a call takes under 100 µs: too short to time one by one, see throughput"
THE_BASELINE = "this is the baseline"
BREAK_EVEN_ENDS = ("break_even_ci_low_calls", "break_even_ci_high_calls")

Number = TypeVar("Number", bound=float | str)


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


def measure(
    cell: Cell,
    launches: Sequence[MeasuredLaunch],
    baseline: Sequence[MeasuredLaunch] | None,
    criteria: stats.Criteria,
    blocks_needed: int | None = None,
) -> Measurements:
    """All numbers of one cell with launches, those of the pilot first.

    `baseline`: the launches of the group's baseline, None where it has none, the same object as `launches` for the baseline.
    `blocks_needed`: by the pilot; None where it could not tell.
    """
    return _Summary(cell, launches, baseline, criteria, blocks_needed).measurements()


def nothing_measured(reason: str) -> Measurements:
    """Of a cell that no worker was started for: every number is null for the one reason."""
    numbers = (name for name, field in Measurements.model_fields.items() if field.default is None)
    return Measurements(reasons=dict.fromkeys(numbers, reason))


class _Summary:
    def __init__(
        self,
        cell: Cell,
        launches: Sequence[MeasuredLaunch],
        baseline: Sequence[MeasuredLaunch] | None,
        criteria: stats.Criteria,
        blocks_needed: int | None,
    ) -> None:
        self._cell = cell
        self._launches = launches
        self._baseline = baseline
        self._criteria = criteria
        self._blocks_needed = blocks_needed
        self._reasons: dict[str, str] = {}

    def measurements(self) -> Measurements:
        fields = {
            **self._cold_start(),
            **self._steady(),
            **self._quantiles(),
            **self._break_even(),
            **self._ratio(),
            **self._outputs(),
            **self._counts(),
        }
        fields |= self._generation(fields)
        fields |= self._application(fields)
        fields |= self._accuracy()
        return Measurements(**fields, per_launch=[_launch_summary(x) for x in self._launches], reasons=self._reasons)

    def _known(self, field: str, value: Number | None, reason: str) -> Number | None:
        """The value; where it is None, the reason is kept."""
        if value is None:
            self._reasons[field] = reason
        return value

    def _ends(self, low: str, high: str, interval: stats.Interval | None, reason: str) -> dict[str, float | None]:
        """Both ends of an interval under their names, or the reason for both."""
        if interval is None:
            self._reasons[low] = self._reasons[high] = reason
            return {low: None, high: None}
        return {low: interval.low, high: interval.high}

    # --- of the cell by itself --------------------------------------------------------------------------------------

    def _cold_start(self) -> dict[str, Any]:
        return {
            "import_s": self._over_launches("import_s", (_seconds(x.record.import_ns) for x in self._launches)),
            **{f"{phase}_s": self._phase(phase) for phase in PHASES},
            "cold_start_s": self._over_launches(
                "cold_start_s", (_seconds(x.record.cold_start_ns) for x in self._launches)
            ),
            "cold_start_residual_s": self._over_launches("cold_start_residual_s", map(_residual_s, self._launches)),
            "warm_up_s": self._over_launches("warm_up_s", map(_warm_up_s, self._launches)),
            "warm_up_calls": self._warm_up_calls(),
        }

    def _steady(self) -> dict[str, Any]:
        return {
            "median_latency_s": self._latency(),
            **self._median_interval(),
            "latency_iqr_s": self._iqr(),
            **self._throughput(),
        }

    def _outputs(self) -> dict[str, Any]:
        return {
            "parity_max_abs": self._parity_max_abs(),
            "parity_passed": self._parity_passed(),
            **{name: self._peak(name) for name in ("peak_rss_bytes", "peak_allocated_bytes")},
        }

    def _counts(self) -> dict[str, Any]:
        rounds = [r for x in self._launches for r in x.record.rounds]
        return {
            "launches": len(self._launches),
            "blocks": len({x.record.block_id for x in self._launches}),
            "blocks_needed": self._known("blocks_needed", self._blocks_needed, "the pilot compared nothing"),
            "rounds": len(rounds),
            "disturbed_rounds": sum(r.disturbed for r in rounds),
            "compilations": self._compilations(),
            "samples": sum(len(x.samples) for x in self._launches),
        }

    def _compilations(self) -> int | None:
        counted = [x.record.rounds[-1].compilations for x in self._launches if x.record.rounds]
        return self._known("compilations", max(counted, default=None), self._not_reached)

    def _median_interval(self) -> dict[str, float | None]:
        latencies = [x.median_latency_s for x in self._launches if x.median_latency_s is not None]
        interval = stats.median_interval(latencies, self._criteria.pilot_blocks)
        return self._ends("median_ci_low_s", "median_ci_high_s", interval, _too_few_launches(len(latencies)))

    def _quantiles(self) -> dict[str, Any]:
        timed = [x.samples for x in self._launches if x.median_latency_s is not None]
        found = {name: stats.pooled_quantile(timed, q) for name, q in stats.QUANTILES.items()}
        values = {f"{name}_s": self._quantile(name, quantile, timed) for name, quantile in found.items()}
        intervals = {name: quantile.interval for name, quantile in found.items() if quantile and quantile.interval}
        return {**values, "quantile_ci_s": {name: [x.low / NS, x.high / NS] for name, x in intervals.items()}}

    def _quantile(self, name: str, quantile: stats.Quantile | None, timed: Sequence[Samples]) -> float | None:
        counted, needed = sum(map(len, timed)), stats.fewest_samples(stats.QUANTILES[name])
        reason = f"too few samples: {counted} of {needed}" if counted else self._untimed
        return self._known(f"{name}_s", None if quantile is None else quantile.value / NS, reason)

    def _over_launches(self, field: str, values: Iterable[float | None], reason: str | None = None) -> float | None:
        known = [value for value in values if value is not None]
        return self._known(field, stats.median(known), reason or self._not_reached)

    @property
    def _status(self) -> Status:
        return overall_status([x.record for x in self._launches])[0]

    @property
    def _not_reached(self) -> str:
        status, error = overall_status([x.record for x in self._launches])
        return f"{status} in {error.stage}" if error and error.stage else f"not measured: {status}"

    @property
    def _untimed(self) -> str:
        """Why there is no latency."""
        too_short = any(len(x.samples) for x in self._launches)
        return TOO_SHORT if too_short else self._not_reached

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
        return self._over_launches("median_latency_s", (x.median_latency_s for x in self._launches), self._untimed)

    def _iqr(self) -> float | None:
        pooled = [x.samples for x in self._launches if x.median_latency_s is not None]
        value = stats.interquartile_range(np.concatenate(pooled)) if pooled else None
        reason = "fewer than four samples" if pooled else self._untimed
        return self._known("latency_iqr_s", None if value is None else value / NS, reason)

    def _throughput(self) -> dict[str, Any]:
        """Measured once: other units are of the same calls and the same time."""
        throughput = self._over_launches("throughput", (x.throughput for x in self._launches))
        items = next((x.record.items_per_call for x in self._launches if x.record.items), {})
        first = next(iter(items), None)
        calls_per_s = throughput / items[first] if throughput is not None and first else None
        return {
            "throughput": throughput,
            "throughput_unit": self._known("throughput_unit", f"{first}/s" if first else None, self._not_reached),
            "rates": {} if calls_per_s is None else {f"{name}/s": n * calls_per_s for name, n in items.items()},
        }

    def _parity_max_abs(self) -> float | None:
        known = [p.max_abs for x in self._launches for p in x.record.parity if p.max_abs is not None]
        return self._known("parity_max_abs", max(known, default=None), self._parity_reason)

    def _parity_passed(self) -> bool | None:
        verdicts = [p.passed for x in self._launches for p in x.record.parity]
        return self._known("parity_passed", all(verdicts) if verdicts else None, self._parity_reason)

    @property
    def _parity_reason(self) -> str:
        records = [p for x in self._launches for p in x.record.parity]
        told = (p.message for p in records if p.message and not p.passed)
        return next(told, TOKENS_ALONE if records else self._not_reached)

    def _peak(self, name: str) -> int | None:
        """The largest of the launches', of what the memory pass calls by this name."""
        values = [x.record.memory_bytes.get(name) for x in self._launches]
        told = (x.record.memory_reasons.get(name) for x in self._launches)
        reason = next((reason for reason in told if reason), self._not_reached)
        return self._known(name, max((x for x in values if x is not None), default=None), reason)

    # --- of some operations -----------------------------------------------------------------------------------------

    def _generation(self, common: Mapping[str, Any]) -> dict[str, Any]:
        untold = self._not_reached if self._status not in GATES and self._status is not Status.OK else UNTOLD
        return self._told(generation_numbers(self._cell, self._launches, common, self._reasons, untold))

    def _application(self, common: Mapping[str, Any]) -> dict[str, Any]:
        untold = self._not_reached if self._status is not Status.OK else "no marked rounds were made"
        return self._told(application_numbers(self._cell, self._launches, common, self._reasons, untold))

    def _told(self, found: Mapping[str, float | Unknown]) -> dict[str, float | None]:
        """The same, the reasons kept of what is not known."""
        return {
            name: self._known(name, None, value.reason) if isinstance(value, Unknown) else value
            for name, value in found.items()
        }

    def _accuracy(self) -> dict[str, Any]:
        """As the first launch that was asked has told."""
        told = next((x.record.accuracy for x in self._launches if x.record.accuracy), None)
        reason = (told.reason if told else None) or self._not_reached
        return {
            "accuracy_metric": self._known("accuracy_metric", told.metric if told else None, reason),
            "accuracy_value": self._known("accuracy_value", told.value if told else None, reason),
        }

    # --- against the baseline ---------------------------------------------------------------------------------------

    @property
    def _is_baseline(self) -> bool:
        return self._launches is self._baseline

    def _ratio(self) -> dict[str, Any]:
        logs = comparison.log_ratios(self._launches, self._baseline or ())
        found = stats.compare(logs, self._criteria) if logs else None
        interval = None if self._is_baseline or found is None else found.interval
        return {
            "ratio_to_baseline": self._known("ratio_to_baseline", found and found.ratio, self._unpaired),
            **self._ends("ratio_ci_low", "ratio_ci_high", interval, self._no_interval(len(logs))),
            "ratio_confidence": self._known(
                "ratio_confidence", interval and self._criteria.confidence, self._no_interval(len(logs))
            ),
            "verdict": self._verdict(found),
        }

    def _no_interval(self, blocks: int) -> str:
        if self._is_baseline:
            return THE_BASELINE
        return f"too few blocks: {blocks} of {stats.FEWEST}" if blocks else self._unpaired

    def _verdict(self, found: stats.Comparison | None) -> stats.Verdict | None:
        """None, with the reason, of what is no contest: unranked numbers decide nothing, though they are shown."""
        baseline_status, _ = overall_status([x.record for x in self._baseline or ()])
        if found is None or self._status is not Status.OK:
            reason = self._unpaired if found is None else f"not ranked: {self._status}"
        elif baseline_status is not Status.OK:
            reason = f"the baseline is not ranked: {baseline_status}"
        elif self._is_baseline and found.verdict != "indicative":
            reason = THE_BASELINE
        else:
            return found.verdict
        return self._known("verdict", None, reason)

    def _break_even(self) -> dict[str, Any]:
        """The cell's own costs and its baseline's; of the blocks that know both."""
        pairs = () if self._is_baseline else comparison.pairs(self._launches, self._baseline or ())
        blocks = [pair.costs for pair in pairs if pair.costs]
        found = stats.break_even_over_blocks(blocks) if blocks else None
        words = str(found) if found else "baseline" if self._is_baseline else None
        reason = THE_BASELINE if self._is_baseline else str(found) if found else self._unpaired
        calls = found.calls if found and found.kind in ("always", "after") else None
        return {
            "break_even_calls": self._known("break_even_calls", calls, reason),
            **self._break_even_interval(blocks),
            "break_even": self._known("break_even", words, self._unpaired),
        }

    def _break_even_interval(self, blocks: Sequence[tuple[stats.Cost, stats.Cost]]) -> dict[str, int | None]:
        interval = stats.break_even_interval(blocks)
        if interval is None:
            ends = self._ends(*BREAK_EVEN_ENDS, None, self._no_interval(len(blocks)))
            return dict.fromkeys(ends)
        values = zip(BREAK_EVEN_ENDS, (interval.low, interval.high), strict=True)
        return {name: self._known(name, int(end) if math.isfinite(end) else None, "never") for name, end in values}

    @property
    def _unpaired(self) -> str:
        if self._baseline is None:
            return "no baseline in this workload"
        if not any(x.median_latency_s for x in self._launches):
            return self._not_reached
        if not any(x.median_latency_s for x in self._baseline):
            return "the baseline has no latency"
        return "not measured in a block together with the baseline; --fresh measures all anew"


def _too_few_launches(launches: int) -> str:
    return f"too few launches: {launches} of {stats.FEWEST}"


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
