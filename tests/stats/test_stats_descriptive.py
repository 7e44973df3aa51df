"""The middle and the spread, against values worked out by hand."""

from __future__ import annotations

import numpy as np

from harness import stats


def test_the_median_of_none_is_unknown() -> None:
    assert stats.median([]) is None


def test_the_median_keeps_integers_of_nanoseconds_exact() -> None:
    sixty_days_ns = 60 * 24 * 3600 * 10**9
    assert stats.median(np.array([sixty_days_ns, sixty_days_ns + 2, sixty_days_ns + 1])) == sixty_days_ns + 1


def test_the_interquartile_range_of_fewer_than_four_values_is_unknown() -> None:
    assert stats.interquartile_range([1.0, 2.0, 3.0]) is None
    assert stats.interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0
