"""Quantiles of single calls, given only where there are samples enough to see them, with intervals over launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.intervals import CONFIDENCE, FEWEST, Interval

Samples = npt.NDArray[np.int64]

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

RESAMPLES = 1000
"""Of a bootstrap: its 2.5 % ends then rest on 25 resamples each, and repeat within a few parts of a hundred of their width."""


@dataclass(frozen=True)
class Quantile:
    """In the samples' unit; an observed sample each."""

    value: float
    interval: Interval | None  # None below three launches


def fewest_samples(q: float) -> int:
    """Samples of which the largest lies below the quantile once in forty times at most: q ** n <= 0.025."""
    return math.ceil(math.log((1 - CONFIDENCE) / 2) / math.log(q))


def pooled_quantile(launches: Sequence[Samples], q: float) -> Quantile | None:
    """The quantile of all samples of all launches; None where they are too few.

    Calls of one launch resemble each other, so the interval is a bootstrap over launches (Davison and Hinkley 1997, ch. 3.8):
    whole launches are drawn with replacement, and the quantile is taken anew. Seeded: the same samples give the same interval.
    """
    launches = [launch for launch in launches if len(launch)]
    if sum(map(len, launches)) < fewest_samples(q):
        return None
    values, launch_of = _sorted(launches)
    each_once = np.ones(len(launches), np.int64)
    return Quantile(_weighted(values, each_once[launch_of], q), _interval(values, launch_of, len(launches), q))


def _sorted(launches: Sequence[Samples]) -> tuple[Samples, Samples]:
    """All samples in ascending order, and beside each the number of its launch."""
    values = np.concatenate(launches)
    launch_of = np.repeat(np.arange(len(launches)), [len(launch) for launch in launches])
    order = np.argsort(values, kind="stable")
    return values[order], launch_of[order]


def _weighted(values: Samples, weights: Samples, q: float) -> float:
    """The smallest value that at least the part q of the weight does not exceed."""
    total = np.cumsum(weights)
    return float(values[np.searchsorted(total, q * total[-1])])


def _interval(values: Samples, launch_of: Samples, launches: int, q: float) -> Interval | None:
    if launches < FEWEST:
        return None
    drawn = np.random.default_rng(0).multinomial(launches, [1 / launches] * launches, size=RESAMPLES)
    found = [_weighted(values, counts[launch_of], q) for counts in drawn]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(low), float(high))
