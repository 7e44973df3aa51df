"""From the monitor's logs to a result's numbers: energy per call, and what the machine was doing meanwhile.

Per launch first, over its rounds; then the median of the launches' energies, the mean of their means, the peak of their peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from harness.model import LaunchRecord, Measurements, Monitoring
from harness.monitor.log import GpuProcess
from harness.monitor.spans import NotSeenError
from harness.monitor.watched import WatchedLaunch

GIB = 1 << 30

Ask = Callable[[WatchedLaunch], Any]
"""One launch's number. Raises NotSeenError."""

Combine = Callable[[Sequence[Any]], Any]
"""Several launches' numbers, at least one, as one."""

Question = tuple[Ask, Combine]


def add_monitoring(
    numbers: Measurements, launches: Sequence[LaunchRecord], block_folder: Callable[[str], Path]
) -> Measurements:
    """The numbers with those that the monitor adds. `block_folder`: block id -> where its log lies."""
    watched, reason = _watched(launches, block_folder)
    energy, reasons = _answers(_ENERGY, watched, reason)
    if watched:
        values, why_not = _answers(_MONITORING, watched, reason)
        missed = {"launches": reason} if len(watched) < sum(bool(record.rounds) for record in launches) else {}
        energy["monitoring"] = Monitoring(**values, launches=len(watched), reasons={**why_not, **missed})
    else:
        reasons["monitoring"] = reason
    return numbers.model_copy(update={**energy, "reasons": {**numbers.reasons, **reasons}})


def _watched(launches: Sequence[LaunchRecord], block_folder: Callable[[str], Path]) -> tuple[list[WatchedLaunch], str]:
    """The launches that were watched; of the others, why the last was not."""
    watched, reason = [], "there was no launch"
    for record in launches:
        try:
            launch = WatchedLaunch.read(record, block_folder(record.block_id))
            launch.check_whole()
            watched.append(launch)
        except NotSeenError as error:
            reason = str(error)
    return watched, reason


def _answers(
    questions: Mapping[str, Question], watched: Sequence[WatchedLaunch], reason: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """(value by field, reason by field): each field is in exactly one of them."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for field, (ask, combine) in questions.items():
        known = []
        for launch in watched:
            try:
                known.append(ask(launch))
            except NotSeenError as error:
                reason = str(error)
        if known:
            values[field] = combine(known)
        else:
            reasons[field] = reason
    return values, reasons


def _gpu_mean(name: str) -> Question:
    return partial(WatchedLaunch.gpu_mean, name=name), fmean


def _gpu_peak(name: str) -> Question:
    return partial(WatchedLaunch.gpu_peak, name=name), max


def _each_once(words: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _listed(found: Sequence[frozenset[str]]) -> str:
    return ", ".join(sorted(frozenset().union(*found))) or "none"


def _processes(found: Sequence[frozenset[GpuProcess]]) -> str:
    """By process id, with the most memory that was seen of each."""
    seen = sorted(frozenset[GpuProcess]().union(*found), key=lambda process: (process.pid, process.used_bytes or -1))
    peaks = {process.pid: process.used_bytes for process in seen}
    return ", ".join(f"{pid} ({_gibibytes(used_bytes)})" for pid, used_bytes in peaks.items()) or "none"


def _gibibytes(used_bytes: int | None) -> str:
    return "memory unknown" if used_bytes is None else f"{used_bytes / GIB:.1f} GiB"


_ENERGY: Mapping[str, Question] = {
    "energy_j_per_call": (lambda launch: launch.energy().j_per_call, median),
    "energy_j_per_item": (lambda launch: launch.energy().j_per_item, median),
    "idle_power_w": (lambda launch: launch.energy().idle_power_w, median),
}
"""By field of Measurements."""

_MONITORING: Mapping[str, Question] = {
    "energy_source": (lambda launch: launch.energy().source, _each_once),
    "cpu_utilisation_mean": (WatchedLaunch.cpu_utilisation, fmean),
    "cpu_frequency_mean_hz": (WatchedLaunch.cpu_frequency_hz, fmean),
    "gpu_uuid": (WatchedLaunch.gpu, _each_once),
    "gpu_utilisation_mean": _gpu_mean("utilisation"),
    "gpu_utilisation_peak": _gpu_peak("utilisation"),
    "gpu_memory_peak_bytes": _gpu_peak("memory_used_bytes"),
    "gpu_worker_memory_peak_bytes": (WatchedLaunch.gpu_worker_memory_bytes, max),
    "gpu_power_mean_w": _gpu_mean("power_w"),
    "gpu_power_peak_w": _gpu_peak("power_w"),
    "gpu_temperature_peak_c": _gpu_peak("temperature_c"),
    "gpu_sm_clock_mean_hz": _gpu_mean("sm_clock_hz"),
    "gpu_memory_clock_mean_hz": _gpu_mean("memory_clock_hz"),
    "gpu_throttle_reasons": (WatchedLaunch.gpu_throttle_reasons, _listed),
    "gpu_foreign_processes": (WatchedLaunch.gpu_foreign_processes, _processes),
}
"""By field of Monitoring."""
