"""The probe: equal work each time, and when two readings differ."""

from __future__ import annotations

import time

import pytest

from harness.worker.probe import UNIT_NS, UNITS, Probe, has_moved


def test_a_reading_holds_five_units_of_each_kind_in_whole_nanoseconds() -> None:
    reading = Probe(time.perf_counter_ns)()
    assert {kind: len(units) for kind, units in reading.items()} == {"arithmetic": UNITS, "copying": UNITS}
    assert all(isinstance(unit_ns, int) and unit_ns > 0 for units in reading.values() for unit_ns in units)


class TickingClock:
    """Advances by a step with each reading, so that all work takes as long as a test says."""

    def __init__(self, step_ns: int) -> None:
        self.step_ns = step_ns
        self._now_ns = 0

    def __call__(self) -> int:
        self._now_ns += self.step_ns
        return self._now_ns


def test_a_unit_is_sized_once_so_that_a_slower_machine_shows() -> None:
    clock = TickingClock(UNIT_NS)  # ten repetitions a millisecond: a unit is ten
    probe = Probe(clock)
    clock.step_ns = 2 * UNIT_NS
    assert probe() == {"arithmetic": [2 * UNIT_NS] * UNITS, "copying": [2 * UNIT_NS] * UNITS}


USUAL = {"arithmetic": [100] * 5, "copying": [200] * 5}


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (USUAL, False),
        ({**USUAL, "copying": [206] * 5}, False),
        ({**USUAL, "copying": [207] * 5}, True),
        ({**USUAL, "arithmetic": [90] * 5}, True),
        ({**USUAL, "arithmetic": [100, 900, 100, 900, 100]}, False),
    ],
    ids=["equal", "within", "slower", "faster", "interrupted"],
)
def test_a_probe_has_moved_where_a_kinds_median_left_the_tolerance(after: dict[str, list[int]], moved: bool) -> None:
    assert has_moved([USUAL, USUAL], [after], 0.03) is moved


def test_nothing_has_moved_where_nothing_was_read() -> None:
    assert not has_moved([], [USUAL], 0.03)
    assert not has_moved([USUAL], [], 0.03)
