"""What does a launch cost beyond its cold start and its measuring? Workers of a block start and import in parallel.

Per block: wall time, less every launch's cold start, warm-up samples and rounds, over the number of launches. What remains is
starting a process, importing its framework, running all slots twice to check them, the memory pass, settling calls, and the
conversation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from bench import Bench

from harness.block import run_block
from harness.model import LaunchRecord, Protocol

NS = 1e9


def accounted_s(record: LaunchRecord) -> float:
    """Seconds of one launch that are cold start or measuring."""
    warm_up_ns = sum(record.warm_up.discarded_ns) if record.warm_up else 0
    return ((record.cold_start_ns or 0) + warm_up_ns + sum(r.elapsed_ns for r in record.rounds)) / NS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("backends", nargs="*", default=["eager", "onnxruntime"])
    arguments = parser.parse_args()
    bench = Bench(arguments.threads)
    cells = [bench.prepare(name, batch_size=1) for name in arguments.backends]
    context = bench.context(Protocol(warm_up_seconds=20))
    costs = []
    for index in range(arguments.blocks):
        started_s = time.perf_counter()
        records = run_block(cells, context, index)
        wall_s = time.perf_counter() - started_s
        costs.append((wall_s - sum(map(accounted_s, records))) / len(records))
        imports = ", ".join(f"{(record.import_ns or 0) / NS:.2f}" for record in records)
        print(
            f"block {index + 1}: {wall_s:.1f} s, fixed cost {costs[-1]:.2f} s a launch (imports in parallel: {imports} s)"
        )
    print(f"median fixed cost of a launch: {statistics.median(costs):.2f} s")


if __name__ == "__main__":
    main()
