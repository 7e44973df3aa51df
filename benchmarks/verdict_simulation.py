"""How often comparisons of a cell with itself are called different, and how often true differences are found.

Simulated samples go through the functions of the product, from the median of a launch to the verdict; nothing is measured, so the
figures are the same on every machine.

    python benchmarks/verdict_simulation.py [COMPARISONS]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from harness import comparison, stats
from harness.model import Hashes, LaunchRecord, Protocol, Status
from harness.samples import MeasuredLaunch
from harness.stopping import Stopping

CALL_S = 0.02
CALLS = 10
"""Of a round."""

BLOCK_S = 30.0


@dataclass(frozen=True)
class Machine:
    """How launches, calls and time move latencies; all as parts of them."""

    deviation: float  # standard deviation from launch to launch
    tails: Literal["normal", "heavy", "two speeds"] = "normal"
    drift: float = 0.0  # over a block, the same for both sides; and a random walk of this step from block to block
    call_deviation: float = 0.05


MACHINES = [
    Machine(deviation, tails, drift)
    for deviation in (0.015, 0.03, 0.06, 0.09)
    for tails, drift in (("normal", 0.0), ("heavy", 0.0), ("two speeds", 0.0), ("normal", 0.2), ("heavy", 0.2))
]


@dataclass(frozen=True)
class Simulated:
    """One comparison, as the product would have ended it."""

    log_ratios: list[float]
    comparison: stats.Comparison

    @property
    def excludes_one(self) -> bool:
        """Whether the interval does: a false positive where there is no difference. No margin, no correction."""
        interval = self.comparison.interval
        return interval is not None and not interval.low <= 1 <= interval.high


def simulate(machine: Machine, protocol: Protocol, seed: int, speed_up: float = 0.0) -> Simulated:
    """A comparison under a protocol; the cell is `speed_up` faster than its baseline in truth."""
    rng = np.random.default_rng(seed)
    criteria = comparison.criteria(protocol, comparisons=1)
    stopping = Stopping(protocol, criteria)
    mine: list[MeasuredLaunch] = []
    baseline: list[MeasuredLaunch] = []
    level = 0.0
    while stopping.goes_on(len(mine), lambda: [comparison.log_ratios(mine, baseline)]):
        level += machine.drift * rng.standard_normal()
        cell, base = _block(machine, protocol, rng, level, block=len(mine), speed_up=speed_up)
        mine.append(cell)
        baseline.append(base)
        stopping.block_measured(BLOCK_S)
    log_ratios = comparison.log_ratios(mine, baseline)
    return Simulated(log_ratios, stats.compare(log_ratios, criteria))


def _block(
    machine: Machine, protocol: Protocol, rng: np.random.Generator, level: float, block: int, speed_up: float
) -> tuple[MeasuredLaunch, MeasuredLaunch]:
    """A launch of either side, rounds in a permutation and its mirror, on a machine that drifts all the while."""
    order = [side for _ in range(protocol.passes) for side in _permutation_and_mirror(rng)]
    drift = level + machine.drift * np.arange(len(order) * CALLS).reshape(len(order), CALLS) / (len(order) * CALLS)
    logs = drift + machine.call_deviation * np.abs(rng.standard_normal(drift.shape))
    levels = np.log(CALL_S) + _deviations(machine, rng) - np.array([np.log1p(speed_up), 0.0])
    samples = [np.exp(levels[side] + logs[[n for n, of in enumerate(order) if of == side]]).ravel() for side in (0, 1)]
    mine, baseline = (MeasuredLaunch(_record(block), (each * 1e9).astype(np.int64), "") for each in samples)
    return mine, baseline


def _permutation_and_mirror(rng: np.random.Generator) -> list[int]:
    order = [int(side) for side in rng.permutation(2)]
    return [*order, *reversed(order)]


def _deviations(machine: Machine, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of the two launches; each kind has the machine's standard deviation."""
    if machine.tails == "heavy":
        return machine.deviation * rng.standard_t(3, 2) / np.sqrt(3)
    if machine.tails == "two speeds":  # one launch in four is slow
        return machine.deviation * (rng.random(2) < 0.25) / np.sqrt(0.25 * 0.75)
    return machine.deviation * rng.standard_normal(2)


@cache
def _record(block: int) -> LaunchRecord:
    hashes = Hashes(key="", protocol_hash="", stack_hash=None, host_hash="")
    return LaunchRecord(
        launch_id="", block_id=str(block), block_index=block, hashes=hashes, started_at="", command=[], status=Status.OK
    )


def false_positives(comparisons: int, protocol: Protocol) -> Iterator[tuple[Machine, int, int, float]]:
    """Machine, comparisons called different, of how many, blocks in the mean."""
    each = comparisons // len(MACHINES)
    for number, machine in enumerate(MACHINES):
        found = [simulate(machine, protocol, seed=number * comparisons + run) for run in range(each)]
        yield machine, sum(x.excludes_one for x in found), each, float(np.mean([len(x.log_ratios) for x in found]))


def main() -> None:
    comparisons = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    _print_false_positives(comparisons, Protocol())
    _print_false_positives(comparisons, Protocol(most_blocks=400, budget_seconds=1e6))
    _print_power(Protocol())


def _print_false_positives(comparisons: int, protocol: Protocol) -> None:
    print(
        f"\nat most {protocol.most_blocks} blocks: launch deviation, tails, drift: false positives, blocks in the mean"
    )
    hits = total = 0
    for machine, called, each, blocks in false_positives(comparisons, protocol):
        hits, total = hits + called, total + each
        print(f"{machine.deviation:6.1%} {machine.tails:>10} {machine.drift:4.0%}: {called:3} of {each}, {blocks:5.1f}")
    interval = stats.binomial_interval(hits, total)
    print(f"all: {hits} of {total}, {hits / total:.2%} ({interval.low:.2%} to {interval.high:.2%}), at the 5 % level")


def _print_power(protocol: Protocol, runs: int = 200) -> None:
    print(f"\nfound to be faster, of {runs} each, by true difference; blocks in the mean")
    for deviation in (0.015, 0.03, 0.06, 0.09):
        for speed_up in (0.02, 0.05, 0.1):
            found = [simulate(Machine(deviation), protocol, 10**6 + run, speed_up) for run in range(runs)]
            faster = sum(x.comparison.verdict == "faster" for x in found) / runs
            blocks = np.mean([len(x.log_ratios) for x in found])
            print(f"{deviation:6.1%} launch deviation, {speed_up:4.0%} faster: {faster:6.1%}, {blocks:4.1f} blocks")


if __name__ == "__main__":
    main()
