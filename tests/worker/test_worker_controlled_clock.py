"""Whole launches on a clock that moves only where a test says: what ends up as cold start, warm-up, steady time and ledger.

And what becomes of two equal backends on a machine that drifts, or whose launches differ: the verdict must not be fooled.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_driver import LATENCY, QUIET, THROUGHPUT, WARM_UP, ClockedOperation, ManualClock, write_inputs

from harness import stats
from harness.disturbance import Pass, order
from harness.model import Protocol
from harness.protocol import Command, Import, Job, Open, Ready, Round, Samples, WarmedUp
from harness.worker.api import Arrays, Facts
from harness.worker.launch import Launch
from harness.worker.surroundings import Surroundings
from harness.worker.timing import TimingLoop

MS = 1_000_000
S = 1_000 * MS
SHAPE = "attention_mask 2x4, input_ids 2x4"
FIRST_RECORDED = 3
"""Calls that a launch has made by its first sample: one in the cold start, and one to settle, counted from 1."""


class ClockedRunner:
    """Around an operation on a manual clock, which a test reaches through the class."""

    not_applicable: Mapping[str, str] = {}
    clock: ManualClock
    first: ClockedOperation

    def load(self, job: Job) -> list[tuple[str, int]]:
        del job
        self.clock.advance(S)
        return [("weights", S)]

    def prepare(self) -> list[tuple[str, int]]:
        return []

    def operation(self, name: str, slots: Sequence[Arrays]) -> ClockedOperation:
        del name, slots
        return self.first

    def facts(self) -> Facts:
        return Facts(effective={}, versions={})

    def compilations(self) -> int:
        return self.first.compiled

    def memory(self, *, reset: bool = False) -> Mapping[str, int]:
        del reset
        return {}

    def close(self) -> None:
        """Nothing to free."""


class QuietWitness:
    def watch(self, stretch: Callable[[], Any], cpus: Sequence[int] = ()) -> tuple[Any, Surroundings]:
        del cpus
        return stretch(), QUIET


@pytest.fixture
def clocked(tmp_path: Path) -> Callable[..., list[Any]]:
    """Carries out commands on calls that take what `call_ns` says, by their number from 0; returns the answers."""

    def carry_out(call_ns: Callable[[int], int], *commands: Command, compiles_in: Callable[[int], bool]) -> list[Any]:
        clock = ManualClock(60 * 24 * 3600 * S)
        operation = ClockedOperation(clock, call_ns)

        def compile_in_some() -> None:
            operation.compiled += compiles_in(operation.calls)

        operation.on_call = compile_in_some
        ClockedRunner.clock, ClockedRunner.first = clock, operation
        launch = Launch(lambda _: None, clock, lambda _: QuietWitness())  # type: ignore[arg-type, return-value]
        return [launch.carry_out(command) for command in (Import(a_job(tmp_path)), Open(), *commands)]

    return carry_out


def a_job(folder: Path) -> Job:
    (folder / "inputs").mkdir()
    write_inputs(folder / "inputs")
    return Job(
        runner=f"{__name__}:ClockedRunner",
        backend="clocked",
        task="feature-extraction",
        operation="forward",
        checkpoint="",
        inputs=str(folder / "inputs"),
        folder=str(folder),
        scratch="",
        cache="",
        dtype="float32",
        device="cpu",
        threads=1,
        batch_size=2,
        sequence_length=4,
    )


def samples_of(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    return dict(np.load(folder / "round-0.npz"))


# --- compiling ------------------------------------------------------------------------------------------------------


def test_a_compilation_of_five_seconds_in_the_first_call_is_cold_start_and_nothing_else(
    clocked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    answers = clocked(lambda n: 5 * S if n == 0 else MS, WARM_UP, LATENCY, compiles_in=lambda n: n == 0)
    ready, warmed, samples = answers[1:]
    assert isinstance(ready, Ready)
    assert ready.stages == [("load", "weights", S), ("first_call", "first_call", 5 * S)]
    assert (ready.cold_start_ns, ready.compilations) == (6 * S, 1)
    assert isinstance(warmed, WarmedUp)
    assert (warmed.calls, warmed.elapsed_ns, warmed.compiled_count) == (0, 0, {})
    assert isinstance(samples, Samples)
    assert (samples.compiled, samples.compiled_count) == (0, {})
    assert set(samples_of(tmp_path)["total_ns"]) == {MS}


def test_a_recompilation_at_the_seventh_sample_is_kept_marked_and_in_the_ledger(
    clocked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    seventh = FIRST_RECORDED + 7 - 2
    answers = clocked(lambda n: 2 * S if n == seventh else MS, LATENCY, compiles_in=lambda n: n == seventh)
    kept = samples_of(tmp_path)
    assert kept["total_ns"].tolist() == [MS] * 6 + [2 * S] + [MS]
    assert kept["compiled"].tolist() == [0] * 6 + [1] + [0]
    assert (answers[-1].compiled, answers[-1].compiled_count, answers[-1].compiled_ns) == (
        1,
        {SHAPE: 1},
        {SHAPE: 2 * S},
    )
    assert answers[-1].stops == []  # a call of two seconds among calls of one millisecond, but it compiled


def test_a_recompilation_in_a_call_that_is_not_recorded_is_in_the_ledger_all_the_same(
    clocked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    answers = clocked(lambda n: 2 * S if n == 1 else MS, LATENCY, compiles_in=lambda n: n == 1)
    assert set(samples_of(tmp_path)["total_ns"]) == {MS}
    assert (answers[-1].compiled, answers[-1].compiled_count) == (0, {SHAPE: 1})


def test_a_backend_that_compiles_for_each_call_never_warms_up_and_has_no_steady_sample(
    clocked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    answers = clocked(lambda _: 100 * MS, WARM_UP, LATENCY, compiles_in=lambda _: True)
    warmed, samples = answers[2:]
    assert (warmed.settled, warmed.reason) == (False, "recompiling")
    assert warmed.compiled_count == {SHAPE: len(warmed.discarded_ns)}
    assert (samples_of(tmp_path)["compiled"] > 0).all()
    assert samples.compiled == samples.calls == 8


def test_compilations_among_calls_back_to_back_have_a_count_and_no_time(clocked: Callable[..., list[Any]]) -> None:
    samples = clocked(lambda _: MS, THROUGHPUT, compiles_in=lambda n: n >= 1)[-1]
    assert samples.compiled == samples.calls
    assert samples.compiled_count == {SHAPE: samples.calls + samples.settle_calls}
    assert samples.compiled_ns == {SHAPE: None}


# --- stops ----------------------------------------------------------------------------------------------------------


def test_a_call_that_stood_still_for_seconds_is_told_and_kept(
    clocked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    samples = clocked(lambda n: 3 * S if n == 5 else MS, LATENCY, compiles_in=lambda _: False)[-1]
    assert samples.stops == ["a call took 3.0 s, the median call 0.001 s"]
    assert samples_of(tmp_path)["total_ns"].max() == 3 * S


def test_calls_back_to_back_that_stood_still_are_told_by_what_they_should_have_taken(
    clocked: Callable[..., list[Any]],
) -> None:
    samples = clocked(lambda n: 3 * S if n == 9 else MS, THROUGHPUT, compiles_in=lambda _: False)[-1]
    assert samples.stops == ["calls back to back took 3.0 s where 0.0 s were expected"]


# --- two equal backends ---------------------------------------------------------------------------------------------

A_ROUND = Round(0, "latency", settle_calls=3, settle_ns=50 * MS, calls=10, budget_ns=S, limit_ns=60 * S)


class Block:
    """Launches of one operation on one clock; how long calls take may depend on the time, and on the launch."""

    def __init__(self, call_ns: Callable[[int, int], float], launches: int = 2) -> None:
        """`call_ns(launch, now_ns)`."""
        clock = ManualClock()

        def loop(launch: int) -> TimingLoop:
            operation = ClockedOperation(clock, lambda _: round(call_ns(launch, clock())))
            return TimingLoop(operation, 8, operation.compilations, clock)

        self._loops = [loop(launch) for launch in range(launches)]
        self.round_medians: list[list[float]] = [[] for _ in range(launches)]

    def measure(self, positions: Sequence[int]) -> Block:
        for launch in positions:
            samples = self._loops[launch].latency_round(A_ROUND)[1].total_ns
            self.round_medians[launch].append(statistics.median(samples.tolist()))
        return self

    @property
    def log_ratio(self) -> float:
        """Of the means of the rounds' medians: they are linear in a drift, the median of all samples is not."""
        return math.log(statistics.mean(self.round_medians[0]) / statistics.mean(self.round_medians[1]))


def block_order(block: int, passes: int = 2, launches: int = 2) -> list[int]:
    """Who has the machine, round by round, in the latency passes of a block."""
    settings = Protocol(passes=passes)
    return [
        position for index in range(passes) for position in order(Pass(index, "latency"), launches, settings, block)
    ]


def drifting(_: int, now_ns: int) -> float:
    """20 ms a call, and 20 % more at the end of a block of two passes of two launches."""
    return 20 * MS * (1 + 0.2 * now_ns / (8.4 * S))


@pytest.mark.parametrize("block", range(4))
def test_a_drift_of_a_fifth_over_a_block_cancels_between_two_equal_backends(block: int) -> None:
    assert abs(Block(drifting).measure(block_order(block)).log_ratio) < 0.003


def test_one_after_the_other_the_same_drift_looks_like_a_difference() -> None:
    assert abs(Block(drifting).measure([0] * 4 + [1] * 4).log_ratio) > 0.09


def test_every_pass_goes_back_the_way_it_came() -> None:
    positions = block_order(0, passes=3, launches=5)
    for first in range(0, len(positions), 10):
        there, back = positions[first : first + 5], positions[first + 5 : first + 10]
        assert sorted(there) == list(range(5))
        assert back == there[::-1]


def test_the_order_is_drawn_for_each_block_and_always_the_same() -> None:
    orders = [tuple(block_order(block, launches=5)) for block in range(20)]
    assert len(set(orders)) > 10
    assert tuple(block_order(0, launches=5)) == orders[0]


def test_launches_of_two_kinds_are_no_difference_between_two_equal_backends() -> None:
    """Each launch is, at random, a fast or a slow one by 10 %: within a block the samples leave no doubt, and are wrong."""
    draw = random.Random(5)
    log_ratios = []
    for block in range(8):
        speeds = [draw.choice([1.0, 1.1]) for _ in range(2)]
        measured = Block(lambda launch, _, speeds=speeds: 20 * MS * speeds[launch]).measure(block_order(block))
        log_ratios.append(measured.log_ratio)
    assert sorted({round(abs(value), 3) for value in log_ratios}) == [0.0, 0.095]
    compared = stats.compare(log_ratios, stats.Criteria(pilot_blocks=8, half_width=0.02, margin=0.01, comparisons=1))
    assert compared.verdict == "no_difference_shown"


# --- work that goes on ----------------------------------------------------------------------------------------------


def test_work_that_goes_on_after_the_call_returns_belongs_to_its_sample_and_not_to_the_next() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS, wait_ns=lambda n: (10 + n) * MS)
    stretch = TimingLoop(operation, 8, operation.compilations, clock).latency(calls=4)
    assert stretch.total_ns.tolist() == [11 * MS, 12 * MS, 13 * MS, 14 * MS]
    assert set(stretch.call_ns) == {MS}


def test_work_that_goes_on_is_waited_for_once_where_calls_are_back_to_back() -> None:
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda _: MS, wait_ns=lambda _: 10 * MS)
    loop = TimingLoop(operation, 8, operation.compilations, clock)
    _, stretch = loop.throughput_round(Round(0, "throughput", 1, 0, calls=10, budget_ns=0, limit_ns=S))
    assert (stretch.calls, stretch.elapsed_ns) == (10, 10 * 11 * MS)
