"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import units


@pytest.mark.parametrize(
    ("seconds", "digits", "text"),
    [
        (1.234, 3, "1.23s"),
        (12.34, 3, "12.3s"),
        (123.4, 3, "123s"),
        (12345.6, 3, "12346s"),
        (0.4123, 3, "412ms"),
        (0.0251, 4, "25.10ms"),
        (0.000038, 3, "38.0µs"),
        (1.2e-8, 3, "12.0ns"),
        (0.9996, 3, "1.00s"),
        (0.9994, 3, "999ms"),
        (0.00099996, 4, "1.000ms"),
        (0.0, 3, "0ns"),
    ],
)
def test_durations_choose_their_unit(seconds: float, digits: int, text: str) -> None:
    assert units.duration(seconds, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "0.01230"),
        (19.611, "19.61"),
        (1961.1, "1,961"),
        (196_112.0, "196,112"),
        (999_999.9, "1.000M"),
        (1.96e9, "1,960M"),
    ],
)
def test_rates_have_four_digits(value: float, text: str) -> None:
    assert units.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.00×"), (1.841, "1.84×"), (12.34, "12.3×"), (123.4, "123×"), (0.054, "0.05×"), (0.0037, "4e-3×")],
)
def test_ratios_never_round_to_nothing(value: float, text: str) -> None:
    assert units.ratio(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.9961, 1.0039, "0.996 to 1.004"), (0.05, 12.34567, "0.050 to 12.35"), (3.4e-6, 0.009, "3.4e-6 to 9.0e-3")],
)
def test_an_interval_has_a_digit_more_than_the_ratio_in_it(low: float, high: float, text: str) -> None:
    assert units.interval(low, high) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.04e-5, "1.0e-5"),
        (0.523, "0.52"),
        (12.3, "12"),
        (1.2e7, "1.2e7"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_differences_are_short(value: float, text: str) -> None:
    assert units.difference(value) == text


@pytest.mark.parametrize(("number", "text"), [(1, "1"), (12345, "12,345"), (1_234_567, "1.2e6")])
def test_counts_are_exact_up_to_a_million(number: int, text: str) -> None:
    assert units.count(number) == text


@given(st.floats(1e-6, 1e5))
def test_a_duration_reads_back_to_what_it_was(seconds: float) -> None:
    text = units.duration(seconds, 4)
    number = text.rstrip("smµ")
    factor = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[text.removeprefix(number)]
    assert float(number) * factor == pytest.approx(seconds, rel=6e-4)
