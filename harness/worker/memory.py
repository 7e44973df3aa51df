"""The memory pass: peaks are reset, a few calls are made, everything is read. Each number says in its name whose it is.

| name | of what |
|---|---|
| `peak_rss_bytes` | the worker's resident memory, highest of the pass |
| `children_peak_rss_bytes` | that of its children, each at its highest of the pass, summed |
| `peak_rss_cold_start_bytes` | the worker's, highest from its start to the first completed output |
| `cgroup_peak_bytes` | the container, page cache included, highest of its life |
| `weights_bytes` | the weights, counted |
| `allocated_bytes` | what the framework's allocator for the device has given out, after the pass |
| `allocated_delta_bytes` | the same, after the pass less before: what the calls left behind |
| `peak_allocated_bytes` | the same, highest of the pass |
| `peak_allocated_delta_bytes` | the same, less what was given out before the pass: what a call needs on top |
| `peak_reserved_bytes` | what that allocator held for itself, highest of the pass |
| `device_context_bytes` | what the process took of the device before it had weights |
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.protocol import MemoryRead
from harness.worker.api import RUNNERS_COUNTERS, Counters, Runner
from harness.worker.container import cgroup_peak
from harness.worker.processes import ChildrenWatch, PeakWatch, Reading

Readings = Mapping[str, Reading]


def memory_pass(
    runner: Runner, calls: Callable[[], object], cold_start_peak: Reading, root: Path = Path("/")
) -> MemoryRead:
    """Reset all peaks, make the calls, read all peaks. `root` is where /proc and /sys lie.

    Raises TypeError for a counter of the runner that is neither a number of bytes nor a reason.
    """
    before = _runners(runner.memory(reset=True))
    own, children = PeakWatch(root / "proc"), ChildrenWatch(root / "proc")
    calls()
    processes = {
        "peak_rss_bytes": own.read(),
        "children_peak_rss_bytes": children.read(),
        "peak_rss_cold_start_bytes": cold_start_peak,
        "cgroup_peak_bytes": cgroup_peak(root),
    }
    after = _runners(runner.memory())
    return _memory_read({**after, **_deltas(before, after), **processes})


def _runners(counters: Counters) -> Readings:
    """The runner's own, and for each that every runner is asked for, that it does not tell it."""
    untold = dict.fromkeys(RUNNERS_COUNTERS, Reading(None, "the runner does not tell it"))
    return {**untold, **{name: _reading(name, value) for name, value in counters.items()}}


def _reading(name: str, value: object) -> Reading:
    if isinstance(value, str):
        return Reading(None, value)
    try:
        return Reading(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        said = "give whole bytes, or a text that says why they are not known"
        raise TypeError(f"memory() returned {name}={value!r}: {said}") from None


def _deltas(before: Readings, after: Readings) -> Readings:
    start = before["allocated_bytes"]
    return {
        "allocated_delta_bytes": _difference(after["allocated_bytes"], start),
        "peak_allocated_delta_bytes": _difference(after["peak_allocated_bytes"], start),
    }


def _difference(later: Reading, earlier: Reading) -> Reading:
    if later.bytes is None or earlier.bytes is None:
        return Reading(None, later.reason or earlier.reason)
    return Reading(later.bytes - earlier.bytes)


def _memory_read(readings: Readings) -> MemoryRead:
    return MemoryRead(
        bytes={name: reading.bytes for name, reading in readings.items()},
        reasons={name: reading.reason for name, reading in readings.items() if reading.reason},
    )
