"""The timing loop, on a clock that moves only where the test says."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
from worker_driver import ClockedOperation, ManualClock

from harness.protocol import Round
from harness.worker.timing import TimingLoop, clock_cost_ns

US = 1_000
MS = 1_000_000
DAY_NS = 24 * 3600 * 1_000_000_000

ROUND = Round(0, "latency", settle_calls=3, settle_ns=0, calls=10, budget_ns=0, limit_ns=DAY_NS)


def loop_of(operation: ClockedOperation, clock: ManualClock, slots: int = 8) -> TimingLoop:
    return TimingLoop(operation, slots, operation.compilations, clock)


# --- samples --------------------------------------------------------------------------------------------------------


def test_a_sample_is_the_call_and_its_wait_in_integer_nanoseconds() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: 100 + n, wait_ns=lambda _: 1_000)
    stretch = loop_of(operation, clock).latency(calls=4)
    assert stretch.call_ns.tolist() == [100, 101, 102, 103]
    assert stretch.total_ns.tolist() == [1_100, 1_101, 1_102, 1_103]
    assert all(array.dtype == np.int64 for array in stretch.arrays().values())


def test_a_difference_of_one_nanosecond_survives_sixty_days_of_uptime() -> None:
    clock = ManualClock(60 * DAY_NS + 1)
    operation = ClockedOperation(clock, call_ns=lambda n: 250 + n % 2)
    stretch = loop_of(operation, clock).latency(calls=1_000)
    assert np.diff(stretch.total_ns).tolist() == [1, -1] * 499 + [1]


def test_choosing_an_input_is_no_part_of_a_sample() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 10, begin_ns=MS)
    stretch = loop_of(operation, clock).latency(calls=3)
    assert stretch.total_ns.tolist() == [10, 10, 10]
    assert stretch.elapsed_ns == 3 * (MS + 10)


def test_reading_the_compilation_counter_is_no_part_of_a_sample() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 10)

    def slow_counter() -> int:
        clock.advance(MS)
        return operation.compiled

    stretch = TimingLoop(operation, 8, slow_counter, clock).latency(calls=3)
    assert stretch.total_ns.tolist() == [10, 10, 10]


def test_a_sample_knows_how_many_compilations_fell_into_it() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 10)
    operation.compiled = 4

    def compile_twice_in_the_second_call() -> None:
        operation.compiled += 2 * (operation.calls == 1)

    operation.on_call = compile_twice_in_the_second_call
    stretch = loop_of(operation, clock).latency(calls=3)
    assert stretch.compiled.tolist() == [0, 2, 0]
    assert stretch.compilations.tolist() == [4, 6, 6]


def test_slots_rotate_from_call_to_call_and_from_round_to_round() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    loop = loop_of(operation, clock, slots=3)
    _, stretch = loop.latency_round(replace(ROUND, settle_calls=2, calls=3))
    loop.throughput_round(replace(ROUND, settle_calls=1, calls=2))
    loop.latency(calls=2)
    assert operation.begun == [index % 3 for index in range(2 + 3 + 1 + 2 + 2)]
    assert stretch.slot.tolist() == [2, 0, 1]


# --- how long a round lasts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "budget_ns", "limit_ns", "made"),
    [
        (10, 5 * MS, DAY_NS, 10),
        (10, 20 * MS, DAY_NS, 20),
        (10, 20 * MS, 4 * MS, 4),
        (10, 20 * MS, 0, 1),
    ],
    ids=["calls", "budget", "limit", "one at least"],
)
def test_a_latency_round_lasts_as_long_as_asked(calls: int, budget_ns: int, limit_ns: int, made: int) -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    stretch = loop_of(operation, clock).latency(calls, budget_ns, limit_ns)
    assert len(stretch.total_ns) == made


@pytest.mark.parametrize(("settle_calls", "settle_ns", "made"), [(3, 0, 3), (3, 50 * MS, 50)])
def test_a_latency_round_first_settles_without_recording(settle_calls: int, settle_ns: int, made: int) -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    round_ = replace(ROUND, settle_calls=settle_calls, settle_ns=settle_ns)
    settled, stretch = loop_of(operation, clock).latency_round(round_)
    assert settled == made
    assert operation.calls == made + len(stretch.total_ns)


# --- throughput -----------------------------------------------------------------------------------------------------


def test_throughput_is_measured_with_one_wait_for_as_many_calls_as_fill_the_budget() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, wait_ns=lambda _: 2 * MS)  # asynchronous: calls return at once
    settle_calls, stretch = loop_of(operation, clock).throughput_round(replace(ROUND, budget_ns=1_000 * MS))
    assert stretch.calls == 500
    assert stretch.elapsed_ns == 1_000 * MS
    assert settle_calls == 3
    assert operation.waits == 2


def test_a_throughput_round_makes_at_least_the_calls_asked_for() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 2 * MS)
    _, stretch = loop_of(operation, clock).throughput_round(replace(ROUND, calls=10, budget_ns=4 * MS))
    assert stretch.calls == 10


@pytest.mark.parametrize(("limit_ns", "made"), [(8 * MS, 4), (1, 1)])
def test_a_throughput_round_stays_within_its_limit_but_makes_a_call(limit_ns: int, made: int) -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 2 * MS)
    round_ = replace(ROUND, calls=10, budget_ns=1_000 * MS, limit_ns=limit_ns)
    _, stretch = loop_of(operation, clock).throughput_round(round_)
    assert stretch.calls == made


def test_a_throughput_round_settles_in_stretches_of_doubling_length() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    settle_calls, _ = loop_of(operation, clock).throughput_round(replace(ROUND, settle_calls=3, settle_ns=22 * MS))
    assert settle_calls == 3 + 6 + 12 + 24


def test_a_slow_call_while_settling_does_not_shorten_the_round() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: 100 * MS if n == 0 else MS)
    round_ = replace(ROUND, settle_calls=1, settle_ns=101 * MS, budget_ns=50 * MS)
    _, stretch = loop_of(operation, clock).throughput_round(round_)
    assert stretch.elapsed_ns == 50 * MS


# --- operations with a state ----------------------------------------------------------------------------------------


def test_an_operation_with_a_state_begins_anew_when_its_calls_are_used_up() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 10, calls_per_begin=3)
    stretch = loop_of(operation, clock).latency(calls=6)
    assert stretch.slot.tolist() == [0, 0, 0, 1, 1, 1]


def test_what_is_recorded_of_an_operation_with_a_state_has_as_many_of_each_step() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: MS * (1 + n % 3), calls_per_begin=3)
    loop = loop_of(operation, clock)
    assert loop.latency(calls=4).total_ns.tolist() == [MS, 2 * MS, 3 * MS] * 2
    assert loop.latency(calls=1, budget_ns=7 * MS).total_ns.tolist() == [MS, 2 * MS, 3 * MS] * 2
    assert loop.latency(calls=9, limit_ns=2 * MS).total_ns.tolist() == [MS, 2 * MS]


def test_an_operation_with_a_state_begins_anew_with_each_stretch() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: 10, calls_per_begin=3)
    loop = loop_of(operation, clock)
    loop.latency(calls=1, limit_ns=1)
    assert loop.latency(calls=2).slot.tolist() == [1, 1, 1]


def test_throughput_of_an_operation_with_a_state_leaves_its_beginnings_out() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS, begin_ns=100 * MS, calls_per_begin=4)
    _, stretch = loop_of(operation, clock).throughput_round(replace(ROUND, settle_calls=1, calls=10))
    assert (stretch.calls, stretch.elapsed_ns) == (12, 12 * MS)
    assert len(operation.begun) == 1 + 3


# --- slots that take differently long -------------------------------------------------------------------------------


def test_where_slots_take_differently_long_every_stretch_is_of_whole_rotations() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: MS * (1 + n % 4))
    loop = TimingLoop(operation, 4, operation.compilations, clock, whole_rotations=True)
    for stretch in (loop.latency(calls=3), loop.latency(calls=1, budget_ns=4 * MS), loop.latency(calls=9, limit_ns=MS)):
        assert stretch.slot.tolist() == [0, 1, 2, 3]
        assert stretch.total_ns.tolist() == [MS, 2 * MS, 3 * MS, 4 * MS]
    settle_calls, recorded = loop.latency_round(replace(ROUND, settle_calls=1, settle_ns=0, calls=5, budget_ns=0))
    assert (settle_calls, recorded.slot.tolist()) == (4, [0, 1, 2, 3] * 2)
    settle_calls, together = loop.throughput_round(replace(ROUND, settle_calls=1, settle_ns=0, calls=5, budget_ns=0))
    assert (settle_calls, together.calls, together.elapsed_ns) == (4, 8, 20 * MS)
    _, together = loop.throughput_round(replace(ROUND, settle_calls=1, calls=50, limit_ns=MS))
    assert (together.calls, together.elapsed_ns) == (4, 10 * MS)


# --- garbage, clock -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["latency_round", "throughput_round", "latency"])
def test_the_garbage_collector_is_off_within_a_round_and_on_again_after(mode: str) -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS)
    seen: list[bool] = []
    operation.on_call = lambda: seen.append(gc.isenabled())
    getattr(loop_of(operation, clock), mode)(5 if mode == "latency" else ROUND)
    assert not any(seen)
    assert gc.isenabled()


def test_the_garbage_collector_is_on_again_after_a_call_that_raised() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: MS // (1 - n))
    with pytest.raises(ZeroDivisionError):
        loop_of(operation, clock).latency_round(ROUND)
    assert gc.isenabled()


def test_the_cost_of_the_clock_is_the_median_time_from_reading_to_reading() -> None:
    costs = iter([40] * 900 + [5_000] * 200)
    clock = ManualClock()

    def read() -> int:
        clock.advance(next(costs))
        return clock()

    assert clock_cost_ns(read) == 40
