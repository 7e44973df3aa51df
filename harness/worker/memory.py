"""Peaks of resident memory, as the kernel keeps them for this process.

VmHWM, not `ru_maxrss`: the latter is inherited through exec, so a small worker started by a large host would report the
host's peak.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.protocol import MemoryRead
from harness.worker.api import Runner

PEAK = "peak_rss_bytes"  # over the memory pass
COLD_START_PEAK = "peak_rss_cold_start_bytes"  # from the start of the process to the first completed output

RESET_PEAK = "5"
"""What resets VmHWM when written to clear_refs: proc(5)."""


@dataclass(frozen=True)
class Reading:
    """A number of bytes, or why there is none."""

    bytes: int | None
    reason: str | None = None


def peak_rss(proc: Path = Path("/proc/self")) -> Reading:
    """The highest resident memory of this process since it started or since the last reset."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", (proc / "status").read_text(), re.MULTILINE)
    except OSError as error:
        return Reading(None, f"cannot be read: {error}")
    return Reading(int(found[1]) * 1024) if found else Reading(None, f"this kernel tells no VmHWM in {proc / 'status'}")


def memory_pass(
    runner: Runner, calls: Callable[[], object], cold_start_peak: Reading, proc: Path = Path("/proc/self")
) -> MemoryRead:
    """Reset all peaks, make the calls, read all peaks: the process's own and the runner's counters."""
    runner.memory(reset=True)
    not_reset = _reset_peak(proc)
    calls()
    own = {PEAK: not_reset or peak_rss(proc), COLD_START_PEAK: cold_start_peak}
    return _memory_read({**_readings(runner.memory()), **own})


def _reset_peak(proc: Path) -> Reading | None:
    try:
        (proc / "clear_refs").write_text(RESET_PEAK)
    except OSError as error:
        return Reading(None, f"the peak could not be reset before the memory pass: {error}")
    return None


def _readings(counters: Mapping[str, int | None]) -> dict[str, Reading]:
    return {
        name: Reading(None, "the runner does not know it") if value is None else Reading(int(value))
        for name, value in counters.items()
    }


def _memory_read(readings: Mapping[str, Reading]) -> MemoryRead:
    return MemoryRead(
        bytes={name: reading.bytes for name, reading in readings.items()},
        reasons={name: reading.reason for name, reading in readings.items() if reading.reason},
    )
