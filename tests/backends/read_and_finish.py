"""`python -I read_and_finish.py OUT.json JOB.json...`: applications around a model that is none, inside a stack.

What Transformers' tokenizers make of raw texts, and what becomes of outputs that are drawn (the same in every stack). OUT.json gets
by task, for each slot, the arrays that the model was given and the objects that came out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.tasks import TASKS
from harness.worker.api import Arrays, Job
from harness.worker.application import ApplicationRunner
from harness.worker.arrays import read_inputs, slots_of


class Drawn:
    """A runner, and its forward pass: outputs of the right names and shapes, drawn anew for each call from one seed."""

    calls_per_begin = None

    def __init__(self, job: Job, vocabulary: int) -> None:
        self.items = {"samples": job.batch_size}
        self._task, self._vocabulary = job.task, vocabulary
        self.given: dict[str, Any] = {}

    def load(self, job: Job) -> Sequence[tuple[str, int]]:
        del job
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Drawn:
        assert (name, len(slots)) == ("forward", 1)
        return self

    def compile(self) -> Sequence[tuple[str, int]]:
        return ()

    def begin(self, slot: int) -> None:
        raise AssertionError(f"slot {slot} was begun, though arrays come by transfer")

    def transfer(self, arrays: Arrays) -> None:
        self.given = {name: array.tolist() for name, array in arrays.items()}

    def call(self, mark: object = None) -> None:
        assert mark is None

    def wait(self) -> None:
        pass

    def outputs(self) -> Arrays:
        rows = np.shape(self.given["input_ids"])
        per_row = self._task == "text-classification"
        features = {"start_logits": (), "end_logits": (), "last_hidden_state": (8,)}
        shapes = {name: features.get(name, (3 if per_row else self._vocabulary,)) for name in TASKS[self._task].outputs}
        draw = np.random.default_rng(7).standard_normal
        return {name: draw((rows[:1] if per_row else rows) + shape, np.float32) for name, shape in shapes.items()}


def finished(job: Job) -> list[dict[str, Any]]:
    """By slot."""
    model = Drawn(job, vocabulary=json.loads(Path(job.checkpoint, "config.json").read_bytes())["vocab_size"])
    runner = ApplicationRunner(model, job)  # type: ignore[arg-type]
    runner.load(job)
    slots = slots_of(read_inputs(Path(job.inputs)))
    operation = runner.operation("application", slots)
    told = []
    for slot in range(len(slots)):
        operation.begin(slot)
        operation.call()
        told.append({"given": model.given, "results": operation.results})
    return told


if __name__ == "__main__":
    jobs = [Job(**json.loads(Path(file).read_bytes())) for file in sys.argv[2:]]
    Path(sys.argv[1]).write_text(json.dumps({job.task: finished(job) for job in jobs}))
