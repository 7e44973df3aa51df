"""When a launch counts as warm: on series that are made up, and on a clock that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_driver import QUIET, ClockedOperation, ManualClock

from harness.protocol import WarmedUp, WarmUp
from harness.worker.ledger import CompileLedger
from harness.worker.surroundings import Surroundings
from harness.worker.timing import TimingLoop
from harness.worker.warmup import MAX_DISCARDED, SettlingDetector, warm_up

MS = 1_000_000


def settled_after(total_ns: list[int], compiled_at: tuple[int, ...] = (), window_ns: int = 0) -> int | None:
    """By windows of 10 calls and 3 %."""
    compiled = np.isin(np.arange(len(total_ns)), compiled_at).astype(np.int64)
    return SettlingDetector(10, window_ns, 0.03).settled_after(np.array(total_ns, np.int64), compiled)


def test_a_flat_series_is_warm_from_its_first_call() -> None:
    assert settled_after([1_000] * 30) == 0


def test_three_whole_windows_are_needed() -> None:
    assert settled_after([1_000] * 29) is None


def test_slow_first_calls_are_warm_up_until_fewer_than_half_a_window_are_left() -> None:
    assert settled_after([2_000] * 20 + [1_000] * 60) == 16


def test_one_disturbed_call_is_no_reason_to_go_on() -> None:
    series = [1_000] * 30
    series[15] = 50_000
    assert settled_after(series) == 0


def test_medians_within_the_tolerance_agree_and_beyond_it_do_not() -> None:
    assert settled_after([1_030] * 10 + [1_000] * 20) == 0
    assert settled_after([1_031] * 10 + [1_000] * 20) is None


def test_two_equal_windows_followed_by_a_faster_one_are_not_warm() -> None:
    assert settled_after([1_000] * 20 + [900] * 10) is None


def test_a_compilation_moves_the_end_of_the_warm_up_behind_it() -> None:
    assert settled_after([1_000] * 60, compiled_at=(7,)) == 8


def test_a_compilation_in_the_last_call_of_the_windows_counts() -> None:
    assert settled_after([1_000] * 30, compiled_at=(29,)) is None


def test_a_steady_climb_is_never_warm() -> None:
    assert settled_after([round(1_000 * 1.01**call) for call in range(200)]) is None


def test_windows_hold_as_many_of_each_step_where_steps_differ() -> None:
    """A generation of 16 steps that get longer: windows of 10 calls would differ by what steps they hold."""
    series = np.array([1_000 + 100 * (call % 16) for call in range(96)], np.int64)
    compiled = np.zeros_like(series)
    assert SettlingDetector(10, 0, 0.03).settled_after(series[:48], compiled[:48]) is None
    assert SettlingDetector(10, 0, 0.03, calls_together=16).settled_after(series[:48], compiled[:48]) == 0
    assert SettlingDetector(17, 0, 0.03, calls_together=16).settled_after(series[:95], compiled[:95]) is None
    assert SettlingDetector(17, 0, 0.03, calls_together=16).settled_after(series, compiled) == 0


def test_windows_last_at_least_as_long_as_asked() -> None:
    assert settled_after([MS] * 149, window_ns=50 * MS) is None
    assert settled_after([MS] * 150, window_ns=50 * MS) == 0


@given(
    series=st.lists(st.tuples(st.sampled_from([100, 101, 102, 110, 150]), st.sampled_from([0] * 9 + [1])), max_size=40),
    window_calls=st.integers(1, 4),
    window_ns=st.sampled_from([0, 150, 400]),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_the_earliest_call_is_found_however_the_series_grows(
    series: list[tuple[int, int]], window_calls: int, window_ns: int, cuts: list[int]
) -> None:
    detector = SettlingDetector(window_calls, window_ns, 0.03)
    found = None
    for length in [*sorted(cuts), len(series)]:
        part = np.array(series[:length], np.int64).reshape(-1, 2)
        found = detector.settled_after(part[:, 0], part[:, 1])
        assert found == _by_definition(series[:length], window_calls, window_ns)
        if found is not None:
            break


def _by_definition(series: list[tuple[int, int]], window_calls: int, window_ns: int) -> int | None:
    """The rule word by word, trying every call."""
    for start in range(len(series)):
        windows, at = [], start
        for _ in range(3):
            window: list[tuple[int, int]] = []
            while at < len(series) and (len(window) < window_calls or sum(ns for ns, _ in window) < window_ns):
                window.append(series[at])
                at += 1
            windows.append(window)
        are_whole = all(len(w) >= window_calls and sum(ns for ns, _ in w) >= window_ns for w in windows)
        if not are_whole:
            return None
        medians = [float(np.median([ns for ns, _ in w])) for w in windows]
        is_quiet = not any(compiled for w in windows for _, compiled in w)
        if is_quiet and max(medians) <= min(medians) * 1.03:
            return start
    return None


# --- the warm-up itself ---------------------------------------------------------------------------------------------

SETTINGS = WarmUp(
    window_calls=10,
    window_ns=0,
    tolerance=0.03,
    limit_ns=10_000 * MS,
    probe_tolerance=0.03,
    foreign_tolerance=0.03,
)


def warmed(
    loop: TimingLoop,
    clock: ManualClock,
    settings: WarmUp = SETTINGS,
    surroundings: Iterable[Surroundings] = repeat(QUIET),
) -> WarmedUp:
    """A warm-up during which the machine does, from stretch to stretch, what `surroundings` say."""
    told = iter(surroundings)
    return warm_up(loop, settings, lambda stretch: (stretch(), next(told)), CompileLedger([{}] * 8), clock)


def operation_and_loop(*slow_calls_ns: int) -> tuple[ClockedOperation, ManualClock, TimingLoop]:
    """Calls of 1 ms, after some slower ones."""
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: slow_calls_ns[n] if n < len(slow_calls_ns) else MS)
    return operation, clock, TimingLoop(operation, 8, operation.compilations, clock)


def test_warm_up_stops_calling_when_three_windows_agree() -> None:
    operation, clock, loop = operation_and_loop()
    ended = warmed(loop, clock)
    assert (ended.settled, ended.calls, ended.elapsed_ns) == (True, 0, 0)
    assert ended.discarded_ns == [MS] * 30
    assert operation.calls == 30


def test_warm_up_tells_what_was_discarded_and_how_long_it_lasted() -> None:
    _, clock, loop = operation_and_loop(*[5 * MS] * 14)
    ended = warmed(loop, clock)
    assert (ended.calls, ended.elapsed_ns) == (10, 50 * MS)
    assert ended.discarded_ns == [5 * MS] * 14 + [MS] * 26


def test_warm_up_ends_at_its_limit_unsettled() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: MS * (n + 1))
    loop = TimingLoop(operation, 8, operation.compilations, clock)
    ended = warmed(loop, clock)
    assert not ended.settled
    assert ended.calls == operation.calls
    assert SETTINGS.limit_ns <= ended.elapsed_ns < SETTINGS.limit_ns + MS * (operation.calls + 1)


def test_warm_up_keeps_only_the_first_samples_of_a_long_one() -> None:
    operation, clock, loop = operation_and_loop()

    def always_compile() -> None:
        operation.compiled += 1

    operation.on_call = always_compile
    ended = warmed(loop, clock, replace(SETTINGS, window_calls=1_000, limit_ns=(MAX_DISCARDED + 1) * MS))
    assert len(ended.discarded_ns) == MAX_DISCARDED < ended.calls


@pytest.mark.parametrize("limit_ns", [0, 1])
def test_warm_up_without_time_still_makes_a_call(limit_ns: int) -> None:
    operation, clock, loop = operation_and_loop()
    assert not warmed(loop, clock, replace(SETTINGS, limit_ns=limit_ns)).settled
    assert operation.calls == 1


# --- the machine meanwhile ------------------------------------------------------------------------------------------

SLOWED = replace(QUIET, probe_ns={"arithmetic": [1_200] * 10})
SHARED = replace(QUIET, foreign_share=0.4)


@pytest.mark.parametrize("disturbed", [SLOWED, SHARED], ids=["slower", "shared"])
def test_a_shift_that_the_witnesses_saw_too_is_disturbance_and_no_warm_up(disturbed: Surroundings) -> None:
    _, clock, loop = operation_and_loop(*[5 * MS] * 20)
    ended = warmed(loop, clock, surroundings=chain([disturbed] * 2, repeat(QUIET)))
    assert (ended.settled, ended.calls, ended.elapsed_ns, ended.disturbed_calls) == (True, 0, 0, 16)


def test_a_shift_that_only_the_latency_shows_is_warm_up() -> None:
    _, clock, loop = operation_and_loop(*[5 * MS] * 20)
    ended = warmed(loop, clock)
    assert (ended.settled, ended.calls, ended.disturbed_calls) == (True, 16, 0)


def test_a_machine_that_is_as_busy_before_as_after_explains_no_shift() -> None:
    _, clock, loop = operation_and_loop(*[5 * MS] * 20)
    assert warmed(loop, clock, surroundings=repeat(SHARED)).calls == 16


def unsettled(operation: ClockedOperation, clock: ManualClock, surroundings: Iterable[Surroundings]) -> str | None:
    """Why a warm-up of at most a second did not settle."""
    loop = TimingLoop(operation, 8, operation.compilations, clock)
    ended = warmed(loop, clock, replace(SETTINGS, limit_ns=1_000 * MS), surroundings)
    assert not ended.settled
    return ended.reason


def test_a_backend_that_compiles_for_every_call_and_one_that_just_drifts_are_told_apart() -> None:
    clock = ManualClock()
    drifting = ClockedOperation(clock, call_ns=lambda n: MS + n * MS // 10)
    assert unsettled(drifting, clock, repeat(QUIET)) == "unsteady"
    compiling = ClockedOperation(clock, call_ns=lambda _: MS)

    def compile_again() -> None:
        compiling.compiled += 1

    compiling.on_call = compile_again
    assert unsettled(compiling, clock, repeat(QUIET)) == "recompiling"


def test_a_drift_of_the_machine_is_not_said_to_be_the_backends() -> None:
    clock = ManualClock()
    drifting = ClockedOperation(clock, call_ns=lambda n: MS + n * MS // 10)
    slowing = (replace(QUIET, probe_ns={"arithmetic": [1_000 + 20 * n] * 10}) for n in range(1_000))
    assert unsettled(drifting, clock, slowing) == "disturbed"


def test_calls_too_long_for_three_windows_are_no_sign_of_unsteadiness() -> None:
    clock = ManualClock()
    assert unsettled(ClockedOperation(clock, call_ns=lambda _: 100 * MS), clock, repeat(QUIET)) == "short"
