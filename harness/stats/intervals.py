"""Intervals: of means whose number of values a pilot has decided, of medians over launches, of rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
"""Of every interval that is one of its kind; those of several comparisons are wider together (`Criteria.confidence`)."""

FEWEST = 3
"""Values below which no interval is given: with two, Student's t is 12.7 and the interval says nothing."""


@dataclass(frozen=True)
class Interval:
    """Ends included, in the unit of what it is about."""

    low: float
    high: float


def half_width(values: Sequence[float], pilot: int, confidence: float = CONFIDENCE) -> float:
    """Of the mean's interval, in the values' unit, where the first `pilot` of at least two values decided how many there are.

    Stein 1945, "A two-sample test for a linear hypothesis whose power is independent of the variance": the deviation of the pilot
    with the pilot's degrees of freedom keeps the level whatever the pilot led to. The larger of that and what all values say
    by themselves, so that a pilot that was quiet by luck does not make the interval too narrow.
    """
    pilot = min(pilot, len(values))
    by_pilot = _t(pilot - 1, confidence) * float(np.std(values[:pilot], ddof=1))
    by_all = _t(len(values) - 1, confidence) * float(np.std(values, ddof=1))
    return max(by_pilot, by_all) / math.sqrt(len(values))


def values_needed(pilot: Sequence[float], wanted_half_width: float, confidence: float) -> int:
    """How many values, the pilot's at least two included, give the half-width wanted (Stein 1945)."""
    expected = _t(len(pilot) - 1, confidence) * float(np.std(pilot, ddof=1))
    return max(len(pilot), math.ceil((expected / wanted_half_width) ** 2))


_MEDIAN_OVER_MEAN = math.sqrt(math.pi / 2)
"""How much wider the median of many normal values scatters than their mean (Laplace); of few values it is less."""


def median_interval(positive: Sequence[float], pilot: int) -> Interval | None:
    """Of the median of positive values, one per launch, in their unit; None below three. On logarithms, so never below 0."""
    if len(positive) < FEWEST:
        return None
    logs = np.log(positive)
    reach = _MEDIAN_OVER_MEAN * half_width(logs.tolist(), pilot)
    middle = float(np.median(positive))
    return Interval(middle * math.exp(-reach), middle * math.exp(reach))


def binomial_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Of a rate, `hits` of `trials`; exact (Clopper and Pearson 1934), so never narrower than it says."""
    from scipy.special import betaincinv  # here, for its import takes longer than `harness --help` should

    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return Interval(low, high)


def _t(degrees: int, confidence: float) -> float:
    """Student's t: so many deviations to either side hold the confidence."""
    from scipy.special import stdtrit  # here, as above

    return float(stdtrit(degrees, (1 + confidence) / 2))
