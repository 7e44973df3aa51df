"""Verdicts, and the number of blocks that they take."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import stats
from harness.model import Measurements


def criteria(pilot: int = 5, comparisons: int = 1, margin: float = 0.01) -> stats.Criteria:
    return stats.Criteria(pilot, half_width=0.02, margin=margin, comparisons=comparisons)


def around(middle: float, deviation: float, blocks: int = 5) -> list[float]:
    """Log ratios whose mean is log(middle), every second one as far above as the next is below."""
    half = [deviation * (-1) ** n for n in range(blocks - blocks % 2)]
    return [math.log(middle) + step for step in [*half, *[0.0] * (blocks % 2)]]


@pytest.mark.parametrize(
    ("middle", "deviation", "verdict"),
    [
        (1.2, 0.01, "faster"),
        (1 / 1.2, 0.01, "slower"),
        (1.2, 0.5, "no_difference_shown"),
        (1.0, 0.001, "equivalent"),
        (1.0, 0.02, "no_difference_shown"),
        (1.005, 0.0001, "equivalent"),  # a difference, and one that matters to nobody
        (1.009, 0.004, "no_difference_shown"),  # below the margin, yet not surely within it
    ],
)
def test_the_verdict_follows_interval_and_margin(middle: float, deviation: float, verdict: str) -> None:
    assert stats.compare(around(middle, deviation), criteria()).verdict == verdict


def test_the_ratio_is_the_geometric_mean_and_the_interval_is_around_it() -> None:
    found = stats.compare([math.log(2), math.log(2), math.log(0.5)], criteria())
    assert found.ratio == pytest.approx(2 ** (1 / 3))
    assert found.interval is not None
    assert found.interval.low * found.interval.high == pytest.approx(found.ratio**2)


@pytest.mark.parametrize("blocks", [1, 2])
def test_fewer_than_three_blocks_are_an_indication_however_far_apart(blocks: int) -> None:
    found = stats.compare([math.log(10)] * blocks, criteria(pilot=2))
    assert (found.verdict, found.interval) == ("indicative", None)
    assert found.ratio == pytest.approx(10)


log_ratios = st.lists(st.floats(-1, 1), min_size=3, max_size=12)


@given(log_ratios)
def test_a_is_faster_than_b_exactly_where_b_is_slower_than_a(logs: list[float]) -> None:
    other = {"faster": "slower", "slower": "faster"}
    mirrored = stats.compare([-value for value in logs], criteria()).verdict
    assert mirrored == other.get(verdict := stats.compare(logs, criteria()).verdict, verdict)


@given(log_ratios, st.integers(1, 8))
def test_interval_and_verdict_never_disagree(logs: list[float], comparisons: int) -> None:
    found = stats.compare(logs, criteria(comparisons=comparisons))
    assert found.interval is not None
    if found.verdict in ("faster", "slower"):
        assert not found.interval.low <= 1 <= found.interval.high
    if found.verdict == "equivalent":
        assert found.interval.high / found.interval.low < 1.01**2 * (1 + 1e-9)


def test_several_comparisons_have_wider_intervals_together_right_as_often_as_one() -> None:
    assert criteria(comparisons=1).confidence == pytest.approx(0.95)
    assert criteria(comparisons=4).confidence == pytest.approx(0.9875)
    narrow, wide = (stats.compare(around(1.1, 0.05), criteria(comparisons=k)).interval for k in (1, 4))
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_noisiest_comparison_decides_how_many_blocks_the_workload_gets() -> None:
    quiet, noisy = around(1.1, 0.001), around(1.3, 0.05)
    alone = stats.needed_blocks([noisy], criteria())
    assert alone is not None
    assert alone > 5
    assert stats.needed_blocks([quiet, noisy], criteria()) == alone
    assert stats.needed_blocks([quiet], criteria()) == 5


def test_a_pilot_of_two_asks_for_no_more() -> None:
    assert stats.needed_blocks([around(1.1, 0.2, blocks=2)], criteria(pilot=2)) is None
    assert stats.needed_blocks([], criteria()) is None


def test_too_few_comparisons_have_no_noise_floor() -> None:
    assert stats.noise_floor([0.01] * 19) is None
    assert stats.noise_floor([0.01] * 20) == pytest.approx(math.exp(0.01))


def test_the_noise_floor_holds_95_of_100() -> None:
    assert stats.noise_floor([0.001 * n * (-1) ** n for n in range(1, 101)]) == pytest.approx(math.exp(0.095))


def test_stored_verdicts_are_those_that_are_given() -> None:
    stored, _none = get_args(Measurements.model_fields["verdict"].annotation)
    assert get_args(stored) == get_args(stats.Verdict)
