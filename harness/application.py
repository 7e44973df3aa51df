"""The numbers of an application: a whole call, and its parts by stamps within calls, never as the difference of two cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness import stats
from harness.model import Cell
from harness.samples import NS, MarkedSamples, MeasuredLaunch
from harness.tasks import APPLICATION_PARTS
from harness.unknown import Unknown

LATENCY = "application_latency_s"

FIELDS: Mapping[str, str] = {part: f"{part}_s" for part in APPLICATION_PARTS}
"""Part -> the field of Measurements that has it."""


def application_numbers(
    cell: Cell, launches: Sequence[MeasuredLaunch], common: Mapping[str, Any], reasons: Mapping[str, str], untold: str
) -> dict[str, float | Unknown]:
    """Fields of Measurements. `common`: those that every operation has, `reasons` why some of them are null; `untold`: why there
    are no marked calls, where nothing else says it."""
    if cell.operation != "application":
        return dict.fromkeys((LATENCY, *FIELDS.values()), Unknown(f"operation {cell.operation} is no application"))
    latency_s = common["median_latency_s"]
    whole = Unknown(reasons.get("median_latency_s", untold)) if latency_s is None else latency_s
    by_launch = [parts for parts in (part_medians_s(launch.marked) for launch in launches) if parts]
    return {LATENCY: whole, **{field: _over_launches(part, by_launch, untold) for part, field in FIELDS.items()}}


def part_medians_s(marked: MarkedSamples | None) -> Mapping[str, float]:
    """Of a launch's calls, by part in order; {} where they did not stamp the parts of an application, or there were none."""
    if marked is None or marked.names != APPLICATION_PARTS or not len(marked.mark_ns):
        return {}
    parts_ns = np.diff(marked.mark_ns, axis=1, prepend=0)
    return {part: float(np.median(parts_ns[:, index])) / NS for index, part in enumerate(APPLICATION_PARTS)}


def _over_launches(part: str, by_launch: Sequence[Mapping[str, float]], untold: str) -> float | Unknown:
    """The median of the launches'."""
    found = stats.median([parts[part] for parts in by_launch])
    return Unknown(untold) if found is None else found
