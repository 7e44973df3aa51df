"""What the harness adds to a call that it times, and to a round: measured on an operation that does nothing at all.

In the sample: what of the loop lies between the two stamps, so how much too long each sample is. Around it: what the loop
does between two samples, which lengthens a round and no sample. Per round: the witnesses, probe included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping

from harness.protocol import Round
from harness.worker.launch import witness_of_this_process
from harness.worker.timing import TimingLoop, clock_cost_ns

NS = 1e9


class Nothing:
    """An operation without any work."""

    items: Mapping[str, int] = {}
    calls_per_begin = None

    def compile(self) -> tuple[()]:
        return ()

    def begin(self, slot: int) -> None: ...

    def call(self, mark: object = None) -> None: ...

    def wait(self) -> None: ...

    def outputs(self) -> dict[str, object]:
        return {}


def least_of(rounds: int, measure: Callable[[], float]) -> float:
    """Of the round that was disturbed least: other processes can only add."""
    return min(measure() for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=20_000, help="per round")
    arguments = parser.parse_args()
    loop = TimingLoop(Nothing(), 8, lambda: 0)
    latency = Round(0, "latency", 3, 0, arguments.calls, 0, 10**10)
    witness = witness_of_this_process(time.perf_counter_ns)

    def in_sample_ns() -> float:
        return statistics.median(loop.latency(arguments.calls).total_ns.tolist())

    def per_call_ns() -> float:
        return loop.latency(arguments.calls).elapsed_ns / arguments.calls

    def back_to_back_ns() -> float:
        return loop.throughput_round(latency)[1].elapsed_ns / arguments.calls

    def per_round_s() -> float:
        started_s = time.perf_counter()
        witness.watch(lambda: None)
        return time.perf_counter() - started_s

    inside, whole = least_of(arguments.rounds, in_sample_ns), least_of(arguments.rounds, per_call_ns)
    print(f"a clock reading: {clock_cost_ns()} ns")
    print(f"per timed call: {inside:.0f} ns in the sample, {whole - inside:.0f} ns around it")
    print(f"per call back to back: {least_of(arguments.rounds, back_to_back_ns):.0f} ns")
    print(f"per round: {least_of(arguments.rounds, per_round_s) * 1e3:.1f} ms of witnesses, probe included")


if __name__ == "__main__":
    main()
