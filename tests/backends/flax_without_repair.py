"""`python -I flax_without_repair.py TASK REPAIR,REPAIR... {CHECKPOINT INPUTS.npz FOLDER}...`: outputs that lack a repair each.

All share a process, and what mends code mends it for all that follow: no repair may come before the checkpoint that is to lack it.
"""

import sys
from pathlib import Path

import numpy as np
from harness_flax.repairs import REPAIRS
from harness_flax.runner import FlaxRunner

from harness.worker.api import Job


def write_outputs(left_out: str, task: str, checkpoint: str, inputs_file: str, folder: str) -> None:
    inputs = dict(np.load(inputs_file))
    slots = [{name: array[slot] for name, array in inputs.items()} for slot in range(len(inputs["input_ids"]))]
    batch_size, sequence_length = slots[0]["input_ids"].shape
    runner = FlaxRunner([repair for repair in REPAIRS if repair.name != left_out])
    runner.load(
        Job(
            runner="",
            backend="flax",
            task=task,
            operation="forward",
            checkpoint=checkpoint,
            inputs="",
            folder=folder,
            scratch=folder,
            cache=folder,
            dtype="float32",
            device="cpu",
            threads=1,
            batch_size=batch_size,
            sequence_length=sequence_length,
        )
    )
    operation = runner.operation("forward", slots)
    operation.compile()
    for slot in range(len(slots)):
        operation.begin(slot)
        operation.call_and_wait()
        np.savez(Path(folder) / f"slot-{slot}.npz", **operation.outputs())
    runner.close()


task, repairs, *places = sys.argv[1:]
for left_out, *where in zip(repairs.split(","), *[iter(places)] * 3, strict=True):
    write_outputs(left_out, task, *where)
