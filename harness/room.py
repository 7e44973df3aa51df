"""Whether the launches of a block fit into memory side by side; where they do not, they follow one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness import cgroups
from harness.block import PreparedCell, Schedule
from harness.model import LaunchRecord, Protocol

GIB = 1 << 30

RUNTIME_BYTES = 3 * GIB // 4
"""Of a worker that was never measured, beside its weights: 0.3 to 0.75 GiB for a framework and its compiler (2026-11)."""

COPIES = 2
"""Of the weights, while they are loaded or converted."""

SPARE = 0.9
"""Part of the available memory that a block may fill: the host process and the page cache live there too."""

Launches = Callable[[str], Sequence[LaunchRecord]]
"""The launches of a key so far, of this run and of former ones."""


def choose_schedule(
    cells: Sequence[PreparedCell],
    protocol: Protocol,
    launches: Launches,
    available_bytes: Callable[[], int] = cgroups.memory_available_bytes,
) -> Schedule:
    """The schedule of the next block of these cells."""
    if protocol.schedule == "sequential":
        return Schedule("sequential", "asked for by the protocol")
    needed, available = sum(_peak_bytes(prepared, launches) for prepared in cells), available_bytes()
    if len(cells) == 1 or needed <= available * SPARE:
        return Schedule()
    told = (
        f"{len(cells)} workers side by side take about {needed / GIB:.1f} GiB, {available / GIB:.1f} GiB are available"
    )
    return Schedule("sequential", told)


def _peak_bytes(prepared: PreparedCell, launches: Launches) -> int:
    """The largest measured so far, or what weights and framework take at least."""
    measured = (_measured_bytes(record) for record in launches(prepared.cell.key))
    peak = max((each for each in measured if each is not None), default=None)
    return RUNTIME_BYTES + COPIES * _folder_bytes(prepared) if peak is None else peak


def _measured_bytes(record: LaunchRecord) -> int | None:
    """Of the worker and its children in the memory pass; cold starts, which may take more, come one at a time."""
    own = record.memory_bytes.get("peak_rss_bytes")
    return None if own is None else own + (record.memory_bytes.get("children_peak_rss_bytes") or 0)


def _folder_bytes(prepared: PreparedCell) -> int:
    return sum(path.stat().st_size for path in prepared.checkpoint.folder.rglob("*") if path.is_file())
