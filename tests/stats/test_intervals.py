"""Intervals against published tables, and against what they promise: to hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from harness import stats
from harness.stats.intervals import values_needed

ONES_DEVIATION = [-1.0, 0.0, 1.0]
"""Mean 0, standard deviation 1."""


def test_without_more_than_the_pilot_it_is_students() -> None:
    assert stats.half_width(ONES_DEVIATION, pilot=3) == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert stats.half_width(ONES_DEVIATION, pilot=3, confidence=0.99) == pytest.approx(9.9248 / 3**0.5, rel=1e-4)


def test_a_pilot_quieter_than_the_rest_does_not_narrow_the_interval() -> None:
    values = [0.01, 0.0, -0.01, 1.0, -1.0, 1.0, -1.0]
    assert stats.half_width(values, pilot=3) == pytest.approx(stats.half_width(values, pilot=7))


def test_a_pilot_noisier_than_the_rest_keeps_its_degrees_of_freedom() -> None:
    values = [*ONES_DEVIATION, *[0.0] * 6]
    assert stats.half_width(values, pilot=3) == pytest.approx(4.3027 / 9**0.5, rel=1e-4)


def test_the_values_needed_are_steins() -> None:
    assert values_needed(ONES_DEVIATION, 1.0, 0.95) == 19  # (4.3027 / 1) ** 2 = 18.5
    assert values_needed(ONES_DEVIATION, 100.0, 0.95) == 3


def test_the_interval_of_a_median_holds_it_and_is_in_its_unit() -> None:
    latencies = [0.020, 0.021, 0.019, 0.020, 0.035]
    interval = stats.median_interval(latencies, pilot=5)
    assert interval is not None
    assert 0 < interval.low < 0.020 < interval.high


def test_two_launches_have_no_interval() -> None:
    assert stats.median_interval([1.0, 2.0], pilot=5) is None


@pytest.mark.parametrize("launches", [5, 12])
def test_the_interval_of_a_median_covers_it_as_often_as_it_says(launches: int) -> None:
    rng = np.random.default_rng(1)
    runs = np.exp(0.05 * rng.standard_t(4, (400, launches)))
    found = [stats.median_interval(run.tolist(), pilot=5) for run in runs]
    covered = sum(interval is not None and interval.low <= 1 <= interval.high for interval in found)
    assert covered / len(runs) > 0.94


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(2, 40, 0.00611, 0.16920), (0, 10, 0.0, 0.30850), (10, 10, 0.69150, 1.0)],  # Clopper and Pearson's tables
)
def test_the_interval_of_a_rate_is_the_exact_one(hits: int, trials: int, low: float, high: float) -> None:
    interval = stats.binomial_interval(hits, trials)
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
