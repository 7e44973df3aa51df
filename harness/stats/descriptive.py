"""The middle and the spread of one set of values."""

from __future__ import annotations

from collections.abc import Sequence

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
