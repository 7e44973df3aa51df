"""Pure numbers: medians, intervals, verdicts, quantiles, break-even.

Imports nothing of ours; every function says its unit and source.
"""

from harness.stats.breakeven import BreakEven, Cost, break_even, break_even_interval, break_even_over_blocks
from harness.stats.descriptive import SHORTEST_TIMED_CALL_S, interquartile_range, median
from harness.stats.intervals import CONFIDENCE, FEWEST, Interval, binomial_interval, half_width, median_interval
from harness.stats.quantiles import QUANTILES, Quantile, fewest_samples, pooled_quantile
from harness.stats.verdicts import (
    FEWEST_FOR_FLOOR,
    Comparison,
    Criteria,
    Verdict,
    chance_of_smaller,
    compare,
    deviation,
    needed_blocks,
    noise_floor,
)

__all__ = [
    "CONFIDENCE",
    "FEWEST",
    "FEWEST_FOR_FLOOR",
    "QUANTILES",
    "SHORTEST_TIMED_CALL_S",
    "BreakEven",
    "Comparison",
    "Cost",
    "Criteria",
    "Interval",
    "Quantile",
    "Verdict",
    "binomial_interval",
    "break_even",
    "break_even_interval",
    "break_even_over_blocks",
    "chance_of_smaller",
    "compare",
    "deviation",
    "fewest_samples",
    "half_width",
    "interquartile_range",
    "median",
    "median_interval",
    "needed_blocks",
    "noise_floor",
    "pooled_quantile",
]
