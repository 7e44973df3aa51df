"""Quantiles of single calls: only from samples enough, and as uncertain as launches differ."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from harness import stats


def launch(fastest: int, calls: int = 100) -> npt.NDArray[np.int64]:
    return np.arange(fastest, fastest + calls, dtype=np.int64)


@pytest.mark.parametrize(("q", "fewest"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_a_quantile_takes_samples_enough_to_have_seen_what_lies_beyond_it(q: float, fewest: int) -> None:
    assert stats.fewest_samples(q) == fewest
    assert stats.pooled_quantile([launch(0, fewest - 1)], q) is None
    assert stats.pooled_quantile([launch(0, fewest)], q) is not None


def test_it_is_a_sample_that_so_many_do_not_exceed() -> None:
    found = stats.pooled_quantile([launch(1), launch(101)], 0.9)
    assert found is not None
    assert found.value == 180


def test_launches_of_other_lengths_count_by_their_calls() -> None:
    found = stats.pooled_quantile([launch(1, 300), launch(10_000, 20)], 0.9)
    assert found is not None
    assert found.value == 288


def test_its_interval_is_as_wide_as_launches_differ_however_many_calls_they_made() -> None:
    alike = stats.pooled_quantile([launch(1_000, 500)] * 6, 0.5)
    apart = stats.pooled_quantile([launch(1_000 * n, 500) for n in range(1, 7)], 0.5)
    assert alike is not None
    assert apart is not None
    assert alike.interval == stats.Interval(alike.value, alike.value)
    assert apart.interval is not None
    assert apart.interval.low < 2_600 < apart.value < 4_400 < apart.interval.high


def test_two_launches_have_a_quantile_and_no_interval() -> None:
    found = stats.pooled_quantile([launch(0), launch(50), launch(0, 0)], 0.9)
    assert found is not None
    assert found.interval is None


def test_no_launch_has_none() -> None:
    assert stats.pooled_quantile([], 0.5) is None


def test_the_same_samples_give_the_same_interval() -> None:
    launches = [launch(n * 7, 60) for n in range(5)]
    assert stats.pooled_quantile(launches, 0.9) == stats.pooled_quantile(launches, 0.9)
