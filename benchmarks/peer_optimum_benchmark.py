"""Ours and optimum-benchmark's latency over the truth, in the same minutes.

Same checkpoint, shape, threads and attention (eager). The truth is `torch.utils.benchmark.Timer` in a process of its own. The peer
gets an environment with the versions it works with, made once in the harness's cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import venv
from pathlib import Path

from bench import Bench
from fidelity import OurLaunch, timer_process

from harness import cache
from harness.block import PreparedCell

PINS = (
    "optimum-benchmark==0.6.0",
    "torch==2.13.0",
    "transformers==4.57.6",
    "datasets==4.0.0",
    "huggingface_hub<1",
)


def peer_python() -> Path:
    folder = cache.home() / "benchmarks" / "optimum-benchmark-0.6.0"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PINS], check=True)
        (folder / "made").touch()
    return folder / "bin" / "python"


def peer_median_s(python: Path, prepared: PreparedCell, threads: int, folder: Path) -> float:
    cell = prepared.cell
    arguments = [prepared.checkpoint.folder, cell.batch_size, cell.sequence_length, threads]
    script = Path(__file__).with_name("peer_process.py")
    command = [str(python), str(script.absolute()), *map(str, arguments)]
    # It leaves a log where it runs.
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_offline(), check=False)
    for line in done.stdout.splitlines():
        if line.startswith("median "):
            return float(line.split()[1])
    raise SystemExit(f"optimum-benchmark gave no latency:\n{done.stdout}\n{done.stderr}")


def _offline() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bench, python = Bench(arguments.threads), peer_python()
    prepared = bench.prepare("eager", arguments.batch_size)
    ours_over_truth, peers_over_truth = [], []
    for number in range(arguments.times):
        timer, ours = timer_process(bench, prepared), OurLaunch(bench, prepared, seconds=2)
        truth_s, ours_s = timer.ask(2), ours.median_s()
        timer.close()
        ours.close()
        peers_s = peer_median_s(python, prepared, arguments.threads, bench.folder)
        ours_over_truth.append(ours_s / truth_s)
        peers_over_truth.append(peers_s / truth_s)
        print(
            f"{number + 1}: truth {truth_s * 1e3:.1f} ms, ours {ours_s * 1e3:.1f} ms, optimum-benchmark {peers_s * 1e3:.1f} ms"
        )
    print(
        f"median over the truth, batch {arguments.batch_size}, {arguments.threads} threads: "
        f"ours {statistics.median(ours_over_truth):.2f}, optimum-benchmark {statistics.median(peers_over_truth):.2f}"
    )


if __name__ == "__main__":
    main()
