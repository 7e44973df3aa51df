"""Pure numbers: medians, spread, break-even. Imports nothing of ours; every function says its unit and source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

SHORTEST_TIMED_CALL_S = 100e-6
"""Below this the clock and the loop are too large a part of a sample: such calls get throughput only (docs/methodology.md)."""


def median(values: Sequence[float] | npt.NDArray[np.int64]) -> float | None:
    """Middle value, in the values' unit; None of none."""
    return float(np.median(values)) if len(values) else None


def interquartile_range(values: Sequence[float] | npt.NDArray[np.int64]) -> float | None:
    """Third less first quartile (linear interpolation), in the values' unit; None below four values."""
    if len(values) < 4:
        return None
    first, third = np.quantile(values, [0.25, 0.75])
    return float(third - first)


@dataclass(frozen=True)
class BreakEven:
    """After how many calls, counted from a cold start, a cell has overtaken its baseline."""

    kind: Literal["always", "after", "until", "never"]
    calls: int | None  # after: the first call from which it leads; until: the last with which it leads; always: 1

    def __str__(self) -> str:
        return f"{self.kind} {self.calls}" if self.kind in ("after", "until") else self.kind


def break_even(start_s: float, call_s: float, baseline_start_s: float, baseline_call_s: float) -> BreakEven:
    """Compare two lines: n calls cost `start + (n - 1) * call` seconds, the first call being part of the start.

    `start` is the cold start plus what the warm-up took beyond steady calls; `call` the steady median. Definition:
    docs/methodology.md, "Break-even".
    """
    dearer, slower = start_s > baseline_start_s, call_s > baseline_call_s
    if not dearer and not slower:
        return BreakEven("always", 1)
    if dearer and call_s >= baseline_call_s:
        return BreakEven("never", None)
    crossing = (start_s - baseline_start_s) / (baseline_call_s - call_s)
    return BreakEven("after", 1 + math.ceil(crossing)) if dearer else BreakEven("until", 1 + math.floor(crossing))
