"""From the ratios of blocks to a verdict, and to the number of blocks that it takes. Procedure: docs/methodology.md.

A *log ratio* is log(median latency of the baseline / median latency of the cell) in one block: above 0, the cell is faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.stats import intervals
from harness.stats.intervals import CONFIDENCE, FEWEST, Interval

Verdict = Literal["faster", "slower", "equivalent", "no_difference_shown", "indicative"]


@dataclass(frozen=True)
class Criteria:
    """What was decided before the first block."""

    pilot_blocks: int
    half_width: float  # wanted, of the ratio's interval, as a part of it: 0.02 is ±2 %
    margin: float  # differences of the ratio from 1 that matter to nobody, as a part of it
    comparisons: int = 1  # of the workload

    @property
    def confidence(self) -> float:
        """Of each interval, so that all of the workload hold together with 0.95 (Bonferroni)."""
        return 1 - (1 - CONFIDENCE) / max(self.comparisons, 1)


@dataclass(frozen=True)
class Comparison:
    """A cell against its baseline."""

    ratio: float  # above 1: the cell is faster
    interval: Interval | None  # of the ratio; None below three blocks
    verdict: Verdict


def compare(log_ratios: Sequence[float], criteria: Criteria) -> Comparison:
    """The verdict on one log ratio a block, at least one, those of the pilot first."""
    mean = float(np.mean(log_ratios))
    if len(log_ratios) < FEWEST:
        return Comparison(math.exp(mean), None, "indicative")
    reach = intervals.half_width(log_ratios, criteria.pilot_blocks, criteria.confidence)
    interval = Interval(math.exp(mean - reach), math.exp(mean + reach))
    return Comparison(math.exp(mean), interval, _verdict(mean, reach, math.log1p(criteria.margin)))


def _verdict(mean: float, reach: float, margin: float) -> Verdict:
    """Margins are of logarithms, so that a is faster than b exactly where b is slower than a."""
    if abs(mean) > reach and abs(mean) >= margin:
        return "faster" if mean > 0 else "slower"
    return "equivalent" if abs(mean) + reach < margin else "no_difference_shown"


def needed_blocks(pilots: Sequence[Sequence[float]], criteria: Criteria) -> int | None:
    """Blocks that the intervals of all comparisons need to be as narrow as wanted, the pilot's included.

    `pilots`: the log ratios of each comparison's pilot. None where none has three blocks: an indication is all that is asked for.
    """
    wanted = math.log1p(criteria.half_width)
    full = (pilot for pilot in pilots if len(pilot) >= FEWEST)
    return max((intervals.values_needed(pilot, wanted, criteria.confidence) for pilot in full), default=None)


def deviation(log_ratios: Sequence[float]) -> float:
    """From launch to launch, of a latency's logarithm, by log ratios of a cell to itself: 0 in truth, with the variance of two."""
    return float(np.sqrt(np.mean(np.square(log_ratios)) / 2))


def chance_of_smaller(before: Sequence[float], after: Sequence[float]) -> float:
    """How likely a deviation is to fall so far, or further, by chance (F test, one-sided). Log ratios of a cell to itself."""
    from scipy.special import fdtrc  # here, for its import takes longer than `harness --help` should

    ratio = (deviation(before) / max(deviation(after), 1e-12)) ** 2
    return float(fdtrc(len(before), len(after), ratio))


FEWEST_FOR_FLOOR = 20
"""Comparisons below which none lies beyond the 95 of 100: their largest would pass for the floor, and be too low."""


def noise_floor(log_ratios: Sequence[float]) -> float | None:
    """The ratio, 1 or more, that 95 of 100 comparisons of a cell with itself stay within; `log_ratios`: one a comparison.

    None from too few of them.
    """
    if len(log_ratios) < FEWEST_FOR_FLOOR:
        return None
    return math.exp(float(np.quantile(np.abs(log_ratios), CONFIDENCE, method="inverted_cdf")))
