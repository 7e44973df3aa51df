"""One launch as the monitor saw it: what each number of it is, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeVar

from harness.model import LaunchRecord, RoundRecord
from harness.monitor import log, spans, watcher
from harness.monitor.log import GpuProcess, GpuReading, Sample
from harness.monitor.spans import Log, NotSeenError, Reading, Span

IN_A_CONTAINER = "the harness runs in a container itself, where the process ids that NVML gives mean other processes"

T = TypeVar("T")

Joules = Callable[[Span], float | None]


@dataclass(frozen=True)
class Energy:
    """Of one launch's rounds, beyond what the idle device would have drawn."""

    j_per_call: float
    j_per_item: float | None  # None: the launch told of no items
    idle_power_w: float
    source: str


@dataclass(frozen=True, eq=False)
class WatchedLaunch:
    """A launch with what was seen of its rounds. Those disturbed are left out, but where nothing else is left."""

    record: LaunchRecord
    log: Log
    rounds: Sequence[tuple[RoundRecord, Span]]  # at least one

    @classmethod
    def read(cls, record: LaunchRecord, block_folder: Path) -> WatchedLaunch:
        """Raises NotSeenError where no round of it was watched."""
        if record.monitor_reason:
            raise NotSeenError(record.monitor_reason)
        seen = spans.read_log(block_folder / watcher.FILE)
        found = [(each, seen.span(log.round_name(record.launch_id, each.index))) for each in record.rounds]
        rounds = [(each, span) for each, span in found if span]
        if not rounds:
            raise NotSeenError("the monitor saw no round of this cell")
        return cls(record, seen, [pair for pair in rounds if not pair[0].disturbed] or rounds)

    def check_whole(self) -> None:
        """Raises NotSeenError where not all its rounds were watched: those that were stand for themselves alone."""
        seen = [bool(self.log.span(log.round_name(self.record.launch_id, each.index))) for each in self.record.rounds]
        if not all(seen):
            raise NotSeenError(f"the monitor saw {sum(seen)} of the {len(seen)} rounds of a launch")

    @property
    def spans(self) -> Sequence[Span]:
        return [span for _, span in self.rounds]

    # Each of the following raises NotSeenError, which says why there is no such number.

    def cpu_utilisation(self) -> float:
        """Of all the machine's processors: 1 is all of them busy."""
        busy_s = sum(span.rise(lambda sample: sample.cpu_busy_s) or 0 for span in self.spans)
        total_s = sum(span.rise(lambda sample: sample.cpu_total_s) or 0 for span in self.spans)
        return _known(busy_s / total_s if total_s else None, "the rounds were too short for the kernel's count")

    def cpu_frequency_hz(self) -> float:
        value = spans.mean(self.spans, lambda sample: sample.cpu_frequency_hz)
        return _known(value, _last_reason(self._samples(), "cpu_frequency_hz"))

    def energy(self) -> Energy:
        """Beyond idle, by the first meter that worked throughout."""
        idle = self.log.span(log.IDLE)
        if idle is None:
            raise NotSeenError(self._why_no_meter() or "the idle machine was not watched (idle_seconds)")
        for source, joules in self._meters().items():
            drawn = [joules(span) for span in (idle, *self.spans)]
            known = [energy_j for energy_j in drawn if energy_j is not None]
            if len(known) == len(drawn):
                return self._energy(source, known[0] / idle.elapsed_s, sum(known[1:]))
        raise NotSeenError(self._why_no_meter() or "the energy counter went back, or was not readable in every round")

    def gpu(self) -> str:
        """UUID of the GPU it ran on: the one where NVML lists its process, else what CUDA calls 0."""
        header = self.log.header
        listed = {uuid for uuid, process in self._processes() if self._is_own(process)}
        if len(listed) == 1 and header.counts_pids_as_host:
            return listed.pop()
        return _known(header.first_gpu, header.first_gpu_reason)

    def gpu_mean(self, name: str) -> float:
        """Of a field of GpuReading."""
        return _known(spans.mean(self.spans, self._of_gpu(name)), self._why_no_gpu_reading(name))

    def gpu_peak(self, name: str) -> float:
        """Of a field of GpuReading."""
        return _known(spans.peak(self.spans, self._of_gpu(name)), self._why_no_gpu_reading(name))

    def gpu_throttle_reasons(self) -> frozenset[str]:
        """All that kept the clock down at any time."""
        known = [x.throttle_reasons for x in self._gpu_readings() if x.throttle_reasons is not None]
        return frozenset().union(*_known(known or None, self._why_no_gpu_reading("throttle_reasons")))

    def gpu_worker_memory_bytes(self) -> int:
        """At its peak, of all its processes together."""
        used = [sum(each.used_bytes or 0 for each in found if self._is_own(each)) for found in self._process_lists()]
        return _known(max(used) or None, "NVML lists no process of this launch, or not its memory")

    def gpu_foreign_processes(self) -> frozenset[GpuProcess]:
        """Those that belong to no launch of the block, one for each amount of memory that was seen of it."""
        return frozenset(each for found in self._process_lists() for each in found if self._is_foreign(each))

    # --- details ----------------------------------------------------------------------------------------------------

    def _samples(self) -> Sequence[Sample]:
        return [sample for span in self.spans for sample in span.within]

    def _energy(self, source: str, idle_power_w: float, drawn_j: float) -> Energy:
        beyond_idle_j = drawn_j - idle_power_w * sum(span.elapsed_s for span in self.spans)
        if beyond_idle_j <= 0:
            raise NotSeenError(f"no more was drawn than by the idle device ({idle_power_w:.1f} W)")
        per_call = beyond_idle_j / sum(each.settle_calls + each.calls for each, _ in self.rounds)
        items = next(iter(self.record.items_per_call.values()), None)
        return Energy(per_call, per_call / items if items else None, idle_power_w, source)

    def _meters(self) -> Mapping[str, Joules]:
        """By name, the better first."""
        if self.log.header.device == "cpu":
            return {"RAPL counters": lambda span: span.rise(lambda sample: sample.package_energy_j)}
        counter, power_w = self._of_gpu("energy_j"), self._of_gpu("power_w")
        return {
            "NVML energy counter": lambda span: span.rise(counter),
            "NVML power, integrated": lambda span: span.integral(power_w),
        }

    def _why_no_meter(self) -> str | None:
        if self.log.header.device == "cpu":
            return self.log.header.packages_reason or _last_reason(self._samples(), "package_energy_j")
        return self.log.header.gpus_reason or _last_reason(self._gpu_readings(), "energy_j")

    def _of_gpu(self, name: str) -> Reading:
        return spans.of_gpu(self.gpu(), lambda reading: getattr(reading, name))

    def _gpu_readings(self) -> Sequence[GpuReading]:
        uuid = self.gpu()
        return [sample.gpus[uuid] for sample in self._samples() if uuid in sample.gpus]

    def _why_no_gpu_reading(self, name: str) -> str | None:
        return _last_reason(self._gpu_readings(), name)

    def _process_lists(self) -> Sequence[Sequence[GpuProcess]]:
        """The GPU's processes, look after look."""
        if not self.log.header.counts_pids_as_host:
            raise NotSeenError(IN_A_CONTAINER)
        known = [reading.processes for reading in self._gpu_readings() if reading.processes is not None]
        return _known(known or None, self._why_no_gpu_reading("processes"))

    def _processes(self) -> Iterator[tuple[str, GpuProcess]]:
        """With the UUID of each one's GPU."""
        for sample in self._samples():
            for uuid, reading in sample.gpus.items():
                yield from ((uuid, process) for process in reading.processes or ())

    def _is_own(self, process: GpuProcess) -> bool:
        return process.launch is not None and self.record.launch_id in PurePath(process.launch).parts

    def _is_foreign(self, process: GpuProcess) -> bool:
        return process.launch is None or self.log.launches.isdisjoint(PurePath(process.launch).parts)


def _last_reason(looks: Sequence[Sample | GpuReading], name: str) -> str | None:
    """Why a reading was missing, the last time that it was."""
    return next((look.reasons[name] for look in reversed(looks) if name in look.reasons), None)


def _known(value: T | None, reason: str | None) -> T:
    if value is None:
        raise NotSeenError(reason or "it was not read")
    return value
