"""Does the monitor disturb what it watches? Rounds of one launch, alternately with a monitor beside them and without.

Each round is a round of the harness itself. A monitor is started before a round that has one, as before a block, and ended after
it; which of the two comes first alternates, so that drift weighs on both alike. Reported are the ratio of the medians of each pair
(with over without) and the processor time that a monitor used, in all and within the rounds, the looks at their edges included.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench import Bench

from harness.block import Launch
from harness.cores import Division
from harness.disturbance import Pass
from harness.model import Protocol
from harness.monitor.watcher import Watcher, watching


class Switch(Watcher):
    """A watcher that looks through another one, where there is one."""

    beside: Watcher | None = None

    @contextlib.contextmanager
    def over(self, name: str) -> Iterator[None]:
        with self.beside.over(name) if self.beside else contextlib.nullcontext():
            yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--interval", type=float, default=Protocol().monitor_interval_seconds, help="seconds")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bench, switch = Bench(arguments.threads), Switch()
    context = replace(bench.context(Protocol(warm_up_seconds=20)), watcher=switch)
    launch = Launch(bench.prepare("eager", arguments.batch), context, "observer-effect", 0, ())
    for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.open, Launch.warm_up):
        step(launch)
    ratios, used_s, within_s = [], [], []
    for pair in range(arguments.pairs):
        medians = {}
        for watched in (True, False) if pair % 2 else (False, True):
            folder = bench.folder / f"monitor-{pair}" if watched else None
            with watching(folder, arguments.interval, "cpu") as watcher:
                switch.beside = watcher if watched else None
                before_s = processor_s(watcher)
                launch.round(Pass(pair, "latency"), Division())
                if watched:
                    used_s.append(processor_s(watcher))
                    within_s.append(used_s[-1] - before_s)
            medians[watched] = median_s(launch)
        ratios.append(medians[True] / medians[False])
        print(f"pair {pair + 1}: {medians[False] * 1e3:.3f} ms without, ratio {ratios[-1]:.4f}")
    launch.kill()
    report(ratios, used_s, within_s)


def processor_s(watcher: Watcher) -> float:
    """To the nanosecond, which psutil's is not: the first number of schedstat."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in watcher.processes) / 1e9


def median_s(launch: Launch) -> float:
    """Of the last round."""
    file = launch.rounds[-1].file
    assert file
    with np.load(Path(launch.folder) / file) as samples:
        return float(np.median(samples["total_ns"])) / 1e9


def report(ratios: list[float], used_s: list[float], within_s: list[float]) -> None:
    logs = np.log(ratios)
    half = 2.0 * float(np.std(logs, ddof=1)) / len(logs) ** 0.5
    low, high = np.exp([logs.mean() - half, logs.mean() + half])
    print(
        f"with over without: median {statistics.median(ratios):.4f}, mean {np.exp(logs.mean()):.4f} [{low:.4f}, {high:.4f}]"
    )
    print(
        f"processor time of a monitor: {statistics.fmean(used_s):.3f} s with its start, "
        f"{statistics.fmean(within_s) * 1e3:.2f} ms in a round"
    )


if __name__ == "__main__":
    main()
