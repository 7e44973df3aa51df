"""Is the harness's latency the truth? Ours over torch.utils.benchmark's, same model, inputs and threads, alternated (A B B A).

Also: the share of a core that the host process uses while its worker measures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from bench import Bench, Script

from harness.block import Launch, PreparedCell
from harness.cores import Division
from harness.disturbance import Pass
from harness.model import Protocol


@dataclass(frozen=True)
class Pair:
    ours_s: float
    theirs_s: float


def told(found: Sequence[Pair], theirs: str) -> str:
    """Medians of both sides, and of the pairs' ratios. `theirs`: what the other side is called."""
    ratios = [pair.ours_s / pair.theirs_s for pair in found]
    ours_s, theirs_s = (statistics.median(getattr(pair, name) for pair in found) for name in ("ours_s", "theirs_s"))
    return (
        f"ours {ours_s * 1e3:.2f} ms, {theirs} {theirs_s * 1e3:.2f} ms, median ratio of {len(found)} pairs "
        f"{statistics.median(ratios):.4f} (from {min(ratios):.3f} to {max(ratios):.3f})"
    )


def alternated(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> Iterator[Pair]:
    """A B B A: a linear drift weighs equally on both."""
    for number in range(pairs):
        if number % 2 == 0:
            yield Pair(ours(), theirs())
        else:
            theirs_s = theirs()
            yield Pair(ours(), theirs_s)


def timer_process(bench: Bench, prepared: PreparedCell) -> Script:
    """torch.utils.benchmark on the same model and inputs: seconds to spend in, the median out."""
    python = bench.stacks.provide(prepared.backend).python
    return Script(python, "timer_process.py", prepared.checkpoint.folder, prepared.inputs.folder, bench.threads)


class OurLaunch:
    """One launch of the harness, led by hand: its rounds are what a run would make."""

    def __init__(self, bench: Bench, prepared: PreparedCell, seconds: float, **settings: int) -> None:
        protocol = Protocol(round_seconds=seconds, warm_up_seconds=20, **settings)
        self._launch = Launch(prepared, bench.context(protocol), "fidelity", 0, ())
        for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.cold_start, Launch.warm_up):
            step(self._launch)
        self.host_cpu_s = self.host_wall_s = 0.0

    def median_s(self) -> float:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        self._launch.round(Pass(0, "latency"), Division())
        self.host_cpu_s += time.process_time() - cpu_s
        self.host_wall_s += time.perf_counter() - wall_s
        newest = max(self._launch.folder.glob("*.npz"), key=lambda file: file.stat().st_mtime_ns)
        with np.load(newest) as samples:
            return float(np.median(samples["total_ns"])) / 1e9

    def close(self) -> None:
        self._launch.kill()


def compare(bench: Bench, batch_size: int, processes: int, pairs: int, seconds: float) -> None:
    """Several fresh processes on each side: two of the very same thing may differ by more than what is looked for."""
    prepared = bench.prepare("eager", batch_size)
    found: list[Pair] = []
    cpu_s = wall_s = 0.0
    for _ in range(processes):
        timer, ours = timer_process(bench, prepared), OurLaunch(bench, prepared, seconds)
        found += alternated(ours.median_s, partial(timer.ask, seconds), pairs)
        cpu_s, wall_s = cpu_s + ours.host_cpu_s, wall_s + ours.host_wall_s
        timer.close()
        ours.close()
    print(f"batch {batch_size}: {told(found, 'Timer')}; host process {cpu_s / wall_s:.2%} of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=5, help="fresh ones on each side")
    parser.add_argument("--pairs", type=int, default=4, help="of rounds per process, alternated")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bench = Bench(arguments.threads)
    for batch_size in (8, 1):
        compare(bench, batch_size, arguments.processes, arguments.pairs, arguments.seconds)


if __name__ == "__main__":
    main()
