"""What does a launch cost beyond its cold start and its measuring? Workers of a block start and import in parallel.

Per block: wall time, less every launch's cold start and all its calls of the model (warm-up, rounds and what settles them, all
slots twice for parity, the memory pass), over the number of launches. What remains is starting a process, importing its
framework, writing and judging outputs, and the conversation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from bench import Bench

from harness.block import MEMORY_CALLS, run_block
from harness.model import InputSpec, LaunchRecord, Protocol

NS = 1e9
SLOTS = InputSpec().slots


def accounted_s(record: LaunchRecord) -> float:
    """Seconds of one launch that are cold start or calls of the model; calls that no one timed count as a round's do."""
    warm_up_ns = sum(record.warm_up.discarded_ns) if record.warm_up else 0
    rounds_ns, calls = sum(r.elapsed_ns for r in record.rounds), sum(r.calls for r in record.rounds)
    untimed = sum(r.settle_calls for r in record.rounds) + 2 * SLOTS + MEMORY_CALLS
    return ((record.cold_start_ns or 0) + warm_up_ns + rounds_ns + untimed * rounds_ns / calls) / NS


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
