"""What calls stamp: names and instants, on a clock that moves only where the test says."""

from __future__ import annotations

import pytest
from worker_driver import ClockedOperation, ManualClock

from harness.protocol import Round
from harness.worker.api import Mark
from harness.worker.marks import Stamps
from harness.worker.timing import TimingLoop

MS = 1_000_000


class StampingOperation(ClockedOperation):
    """Each call takes 2 ms to its first token, and 3 ms to each of two more."""

    def call(self, mark: Mark | None = None) -> None:  # type: ignore[override]
        super().call()
        for name, elapsed_ns in (("first_token", 2 * MS), ("token", 3 * MS), ("token", 3 * MS)):
            self._clock.advance(elapsed_ns)
            if mark:
                mark(name)


def test_a_marked_round_tells_when_each_call_stamped_what() -> None:
    clock = ManualClock(60 * 24 * 3600 * 1000 * MS + 1)
    operation = StampingOperation(clock)
    loop = TimingLoop(operation, 8, operation.compilations, clock)
    round_ = Round(0, "marked", settle_calls=2, settle_ns=0, calls=4, budget_ns=0, limit_ns=10**12)
    settle_calls, stretch, stamped = loop.marked_round(round_)
    assert (settle_calls, len(stretch.total_ns), operation.calls) == (2, 4, 6)
    assert stamped.names == ("first_token", "token", "token")
    assert stamped.since_start_ns.tolist() == [[2 * MS, 5 * MS, 8 * MS]] * 4


def test_calls_that_stamp_nothing_have_no_names_and_a_row_each() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    loop = TimingLoop(operation, 8, operation.compilations, clock)
    _, _, stamped = loop.marked_round(Round(0, "marked", 1, 0, 3, 0, 10**12))
    assert stamped.names == ()
    assert stamped.since_start_ns.shape == (3, 0)


def test_a_call_that_stamps_other_names_than_the_first_is_an_error_that_names_both() -> None:
    counts = iter([3, 3, 2])

    def call(mark: Mark) -> None:
        mark("first_token")
        for _ in range(next(counts) - 1):
            mark("token")

    stamps = Stamps(call)
    for _ in range(3):
        stamps.call()
    with pytest.raises(ValueError, match=r"call 3 .*stamped first_token, token, the first one first_token, 2 x token"):
        stamps.stamped()
