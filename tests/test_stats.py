"""Numbers checked against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import stats


def test_the_median_of_none_is_unknown() -> None:
    assert stats.median([]) is None


def test_the_median_keeps_integers_of_nanoseconds_exact() -> None:
    sixty_days_ns = 60 * 24 * 3600 * 10**9
    assert stats.median(np.array([sixty_days_ns, sixty_days_ns + 2, sixty_days_ns + 1])) == sixty_days_ns + 1


def test_the_interquartile_range_of_fewer_than_four_values_is_unknown() -> None:
    assert stats.interquartile_range([1.0, 2.0, 3.0]) is None
    assert stats.interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0


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
    found = stats.break_even(start_s, call_s, baseline_start_s=1.0, baseline_call_s=1.0)
    assert (str(found), found.calls) == (words, calls)


positive = st.integers(1, 10**6)


@given(start=positive, call=positive, base_start=positive, base_call=positive)
def test_break_even_agrees_with_counting_call_by_call(start: int, call: int, base_start: int, base_call: int) -> None:
    found = stats.break_even(start, call, base_start, base_call)

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
