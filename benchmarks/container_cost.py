"""What does a container cost? Everything is compared with a virtual environment of the same lock, in one run, by turns (A B B A).

1. Start: from the start of the process to the worker's first event, and from the order to end it until it is gone.
2. A cell's fixed cost: the wall time of a block that is neither cold start nor a call of the model, for each launch in it.
3. Latency inside over outside: each launch a fresh worker, warmed up; the ratio of medians of each pair, and their spread.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from bench import Bench
from launch_cost import accounted_s

from harness import protocol
from harness.block import PreparedCell, run_block
from harness.engine import Engine
from harness.executors import choice
from harness.executors.base import LaunchSpec
from harness.launch import RunningLaunch
from harness.model import LaunchRecord, Protocol

NS = 1e9
INSIDE, OUTSIDE = "container", "environment"
STARTS = "start to first event", "order to end"


def alternated(repetitions: int) -> Iterator[str]:
    """Inside outside outside inside, so that a linear drift weighs equally on both."""
    for index in range(repetitions):
        yield from (INSIDE, OUTSIDE) if index % 2 == 0 else (OUTSIDE, INSIDE)


def start_and_end(bench: Bench, prepared: PreparedCell, number: int) -> tuple[float, float]:
    """Seconds."""
    folder = bench.folder / f"start-{number}"
    (folder / "scratch").mkdir(parents=True)
    readable = (prepared.checkpoint.folder, prepared.inputs.folder)
    started_s = time.perf_counter()
    spec = LaunchSpec(f"{os.getpid()}-{number}", prepared.backend, folder, folder / "scratch", readable)
    launch = RunningLaunch(bench.executor, spec)
    launch.receive(protocol.Hello, 60)
    told_s = time.perf_counter()
    launch.end()
    return told_s - started_s, time.perf_counter() - told_s


def measure_starts(benches: Mapping[str, Bench], cells: Mapping[str, PreparedCell], repetitions: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {INSIDE: [], OUTSIDE: []}
    for number, where in enumerate(alternated(repetitions)):
        found[where].append(start_and_end(benches[where], cells[where], number))
    for where, times in found.items():
        for what, seconds in zip(STARTS, zip(*times, strict=True), strict=True):
            print(f"{where}: {what}: {told(seconds)} s")


def measure_blocks(
    benches: Mapping[str, Bench], cells: Mapping[str, PreparedCell], settings: Protocol, pairs: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Fixed seconds and median seconds of each launch, a block of one launch each."""
    fixed: dict[str, list[float]] = {INSIDE: [], OUTSIDE: []}
    medians: dict[str, list[float]] = {INSIDE: [], OUTSIDE: []}
    for number, where in enumerate(alternated(pairs)):
        started_s = time.perf_counter()
        (record,) = run_block([cells[where]], benches[where].context(settings), number)
        wall_s = time.perf_counter() - started_s
        fixed[where].append(wall_s - accounted_s(record))
        medians[where].append(median_s(record, benches[where].folder))
    return fixed, medians


def median_s(record: LaunchRecord, folder: Path) -> float:
    (launch,) = folder.glob(f"*-{record.launch_id}-*")
    files = [each.file for each in record.rounds if each.file]
    return float(np.median(np.concatenate([np.load(launch / file)["total_ns"] for file in files]))) / NS


def told(values: tuple[float, ...] | list[float], scale: Callable[[float], float] = float) -> str:
    """Median, and the least and most."""
    shown = sorted(map(scale, values))
    return f"{statistics.median(shown):.3f} ({shown[0]:.3f} to {shown[-1]:.3f}, n={len(shown)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=8, help="launches on each side")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed calls a round; two rounds a launch")
    arguments = parser.parse_args()
    executors = {INSIDE: choice.docker_executor(Engine.connect(), print), OUTSIDE: choice.venv_executor()}
    benches = {where: Bench(arguments.threads, executor) for where, executor in executors.items()}
    cells = {where: bench.prepare(arguments.backend, arguments.batch_size) for where, bench in benches.items()}
    measure_starts(benches, cells, arguments.starts)
    settings = Protocol(round_seconds=arguments.seconds, passes=1, warm_up_seconds=20, repeats=0, monitor=False)
    fixed, medians = measure_blocks(benches, cells, settings, arguments.pairs)
    for where, seconds in fixed.items():
        print(
            f"{where}: fixed cost of a launch: {told(seconds)} s; median latency {told(medians[where], lambda s: s * 1e3)} ms"
        )
    ratios = [inside / outside for inside, outside in zip(medians[INSIDE], medians[OUTSIDE], strict=True)]
    logs = [math.log(ratio) for ratio in ratios]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    print(
        f"latency inside over outside: {told(ratios)}; geometric mean {math.exp(statistics.mean(logs)):.3f}, ± {error:.3f}"
    )


if __name__ == "__main__":
    main()
