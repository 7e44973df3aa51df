"""When a workload gets another block."""

from __future__ import annotations

from harness import comparison
from harness.model import Protocol
from harness.stopping import Stopping

NOISY = [0.1, -0.1, 0.1, -0.1, 0.1]
QUIET = [0.1, 0.1001, 0.1, 0.1001, 0.1]


def stopping(**settings: float) -> Stopping:
    protocol = Protocol(**settings)
    return Stopping(protocol, comparison.criteria(protocol, comparisons=1))


def blocks_made(asked: Stopping, pilot: list[float], seconds: float = 1.0) -> int:
    blocks = 0
    while asked.goes_on(blocks, lambda: [pilot]):
        blocks += 1
        asked.block_measured(seconds)
    return blocks


def test_a_pilot_that_is_certain_enough_is_all() -> None:
    asked = stopping()
    assert blocks_made(asked, QUIET) == 5
    assert asked.needed == 5


def test_a_noisy_pilot_asks_for_more_up_to_the_most_allowed() -> None:
    asked = stopping(most_blocks=40)
    assert blocks_made(asked, NOISY) == 40
    assert asked.needed is not None
    assert asked.needed > 40


def test_the_pilot_alone_decides_whatever_comes_later() -> None:
    asked = stopping(most_blocks=1000)
    assert asked.goes_on(5, lambda: [QUIET]) is False
    assert asked.goes_on(6, lambda: [NOISY]) is False


def test_blocks_that_do_not_fit_into_the_budget_are_not_begun() -> None:
    assert blocks_made(stopping(budget_seconds=75.0), NOISY, seconds=10.0) == 7


def test_the_pilot_is_made_whatever_it_costs() -> None:
    assert blocks_made(stopping(budget_seconds=1.0), NOISY, seconds=1000.0) == 5


def test_blocks_of_a_former_run_cost_this_one_nothing() -> None:
    asked = stopping(budget_seconds=10.0)
    assert asked.goes_on(5, lambda: [NOISY]) is True  # five were taken, none was measured


def test_where_nothing_is_compared_the_pilot_is_all() -> None:
    asked = stopping()
    assert asked.goes_on(5, list) is False
    assert asked.needed is None
