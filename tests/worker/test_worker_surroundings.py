"""The witnesses of a round: what they notice, and that they say nothing where nothing went on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.worker.surroundings import (
    TICK_NS,
    Continuations,
    Reading,
    Witness,
    busy_ns,
    foreign_share,
    long_call,
    long_stretch,
)

MS = 1_000_000
S = 1_000_000_000

BEFORE = Reading(now_ns=0, suspended_ns=0, continued=0, own_ns=0, busy_ns=0, cpus=2)


def share(busy: int | None, own: int, elapsed: int = S, cpus: int = 2) -> float | None:
    return foreign_share(BEFORE, replace(BEFORE, now_ns=elapsed, own_ns=own, busy_ns=busy, cpus=cpus))


# --- other processes ------------------------------------------------------------------------------------------------


def test_what_others_had_is_what_all_had_less_our_own_as_a_part_of_the_processors_time() -> None:
    assert share(busy=1_500 * MS + 2 * TICK_NS, own=500 * MS) == 0.5


def test_what_the_kernels_ticks_can_make_up_is_held_against_nobody() -> None:
    assert share(busy=2 * TICK_NS, own=0, elapsed=10 * MS) == 0.0
    assert share(busy=500 * MS, own=510 * MS) == 0.0


def test_the_share_is_not_known_where_the_kernel_does_not_tell() -> None:
    assert share(busy=None, own=0) is None


def test_time_on_processors_of_others_is_no_concern(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 1000 4 5 6 1 0\ncpu1 7 0 0 0 0 0 0 0 0 0\nintr 1 2 3\n")
    assert busy_ns(stat, {0}) == 21 * TICK_NS
    assert busy_ns(stat, {0, 1}) == 28 * TICK_NS


def test_a_stat_that_is_missing_or_lacks_a_processor_tells_nothing(tmp_path: Path) -> None:
    assert busy_ns(tmp_path / "stat", {0}) is None
    (tmp_path / "stat").write_text("cpu0 1 2 3 4 5 6 7 8\n")
    assert busy_ns(tmp_path / "stat", {0, 1}) is None


def test_a_process_that_computes_beside_us_is_seen() -> None:
    """A real one, on the one processor that is watched, for a quarter of a second."""
    cpu = min(os.sched_getaffinity(0))
    script = f"import os, time; os.sched_setaffinity(0, {{{cpu}}})\nuntil = time.time() + 30\nwhile time.time() < until: pass"
    with subprocess.Popen([sys.executable, "-c", script]) as other:
        try:
            _, seen = a_witness().watch(lambda: signal.sigtimedwait([], 0.25), [cpu])
        finally:
            other.kill()
    assert seen.foreign_share is None or seen.foreign_share > 0.1


# --- stops ----------------------------------------------------------------------------------------------------------


def a_witness(continuations: Continuations | None = None) -> Witness:
    probe = iter([{"arithmetic": [1, 2]}, {"arithmetic": [3]}]).__next__
    return Witness(probe, continuations or Continuations(), time.perf_counter_ns)


def test_a_round_in_peace_has_no_stops_and_its_probes_in_order() -> None:
    result, seen = a_witness().watch(lambda: "samples")
    assert (result, seen.stops, seen.probe_ns) == ("samples", [], {"arithmetic": [1, 2, 3]})


def test_a_process_that_was_continued_has_been_stopped() -> None:
    continuations = Continuations()
    former = signal.getsignal(signal.SIGCONT)
    try:
        continuations.listen()
        _, seen = a_witness(continuations).watch(lambda: os.kill(os.getpid(), signal.SIGCONT))
    finally:
        signal.signal(signal.SIGCONT, former)
    assert seen.stops == ["the process was stopped and continued (SIGCONT)"]


def test_a_machine_that_slept_is_noticed_by_two_clocks_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_BOOTTIME: iter([7 * S, 11 * S]), time.CLOCK_MONOTONIC: iter([7 * S, 8 * S])}
    monkeypatch.setattr("time.clock_gettime_ns", lambda clock: next(clocks[clock]))
    _, seen = a_witness().watch(lambda: None)
    assert seen.stops == ["the machine was suspended for 3.0 s"]


def stops(*total_ms: float, compiled_at: int | None = None) -> list[str]:
    total_ns = (np.array(total_ms) * MS).astype(np.int64)
    return long_call(total_ns, (np.arange(len(total_ms)) == compiled_at).astype(np.int64))


def test_a_call_of_seconds_among_calls_of_milliseconds_is_a_stop() -> None:
    assert stops(*[20] * 9, 2_020) == ["a call took 2.0 s, the median call 0.02 s"]


def test_calls_of_slots_that_take_differently_long_are_compared_with_those_of_their_slot() -> None:
    total_ns, slot = np.array([10, 2_000] * 4 + [10, 10, 2_000]) * MS, np.array([0, 1] * 4 + [0, 0, 0])
    compiled = np.zeros_like(total_ns)
    assert long_call(total_ns[:-1], compiled[:-1], slot[:-1]) == []
    assert long_call(total_ns, compiled, slot) == ["a call took 2.0 s, the median call 0.01 s"]


@pytest.mark.parametrize(
    "total_ms",
    [[20] * 9 + [900], [500] * 9 + [1_600], [3_000] * 10, [2_000]],
    ids=["under a second", "not ten times the median", "all are long", "the only one"],
)
def test_calls_that_are_just_slow_are_none(total_ms: list[float]) -> None:
    assert stops(*total_ms) == []


def test_a_call_that_compiled_for_seconds_is_none() -> None:
    assert stops(*[20] * 9, 5_020, compiled_at=9) == []
    assert stops(5_020, compiled_at=0) == []


def test_calls_back_to_back_that_took_seconds_too_long_are_a_stop() -> None:
    assert long_stretch(3 * S, S) == ["calls back to back took 3.0 s where 1.0 s were expected"]
    assert long_stretch(S, 10 * MS) == []
    assert long_stretch(11 * S, 10 * S) == []
