"""Break-even checked against counting, its interval against blocks that leave no doubt."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import stats


@pytest.mark.parametrize(
    ("start_s", "call_s", "words", "calls"),
    [
        (11.0, 0.5, "after 21", 21),  # 10 s dearer, 0.5 s saved per call: call 21 is the first that leads (ties count)
        (11.1, 0.5, "after 22", 22),
        (0.5, 0.9, "always", 1),
        (1.0, 1.0, "always", 1),
        (2.0, 1.0, "never", None),
        (2.0, 1.5, "never", None),
        (0.5, 1.125, "until 5", 5),  # 0.5 s cheaper, 0.125 s lost per call
        (1.0, 1.1, "until 1", 1),
    ],
)
def test_break_even_against_a_baseline_of_one_second_to_start_and_one_a_call(
    start_s: float, call_s: float, words: str, calls: int | None
) -> None:
    found = stats.break_even(stats.Cost(start_s, call_s), baseline=stats.Cost(1.0, 1.0))
    assert (str(found), found.calls) == (words, calls)


positive = st.integers(1, 10**6)


@given(start=positive, call=positive, base_start=positive, base_call=positive)
def test_break_even_agrees_with_counting_call_by_call(start: int, call: int, base_start: int, base_call: int) -> None:
    found = stats.break_even(stats.Cost(start, call), stats.Cost(base_start, base_call))

    def leads(calls: int) -> bool:
        return start + (calls - 1) * call <= base_start + (calls - 1) * base_call

    match found.kind:
        case "always":
            assert leads(1)
            assert leads(10**9)
        case "never":
            assert not leads(1)
            assert not leads(10**9) or call == base_call
        case "after":
            assert found.calls is not None
            assert leads(found.calls)
            assert not leads(found.calls - 1)
        case "until":
            assert found.calls is not None
            assert leads(found.calls)
            assert not leads(found.calls + 1)


DEARER_AND_FASTER = (stats.Cost(11.0, 0.5), stats.Cost(1.0, 1.0))  # after 21
CHEAPER_AND_SLOWER = (stats.Cost(0.5, 1.125), stats.Cost(1.0, 1.0))  # until 5
DEARER_AND_SLOWER = (stats.Cost(2.0, 1.5), stats.Cost(1.0, 1.0))


def test_over_blocks_it_is_that_of_the_medians() -> None:
    slow_start = (stats.Cost(99.0, 0.5), stats.Cost(1.0, 1.0))
    assert str(stats.break_even_over_blocks([DEARER_AND_FASTER, slow_start, DEARER_AND_FASTER])) == "after 21"


def test_blocks_that_agree_leave_no_doubt() -> None:
    assert stats.break_even_interval([DEARER_AND_FASTER] * 5) == stats.Interval(21, 21)


def test_two_blocks_have_no_interval() -> None:
    assert stats.break_even_interval([DEARER_AND_FASTER] * 2) is None


def test_where_some_blocks_never_pay_back_the_upper_end_is_never() -> None:
    interval = stats.break_even_interval([*[DEARER_AND_FASTER] * 4, *[DEARER_AND_SLOWER] * 3])
    assert interval is not None
    assert (interval.low, interval.high) == (21, math.inf)


def test_a_cell_that_leads_for_a_while_only_never_leads_for_good() -> None:
    assert stats.break_even_interval([CHEAPER_AND_SLOWER] * 4) == stats.Interval(math.inf, math.inf)


def test_the_same_blocks_give_the_same_interval() -> None:
    blocks = [(stats.Cost(10.0 + n, 0.5), stats.Cost(1.0, 1.0 + n / 10)) for n in range(6)]
    assert stats.break_even_interval(blocks) == stats.break_even_interval(blocks)
