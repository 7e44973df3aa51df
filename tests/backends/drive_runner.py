"""`python -I drive_runner.py FOLDER...`: leads a runner through a launch for each folder, inside its stack.

Reads FOLDER/job.json and FOLDER/inputs.npz, which holds each input as (slots, batch, ...); writes FOLDER/report.json and
FOLDER/slot-{i}.npz. What the worker would do is done here in its order, and told in full, so that tests can look at what the
worker keeps to itself. Several folders share a process, to import the framework once: for tests that look at outputs only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.worker.api import Job, Operation
from harness.worker.checks import build_runner

FRAMEWORKS = ("jax", "onnx", "onnxruntime", "optimum", "torch", "transformers")


def main(folder: Path) -> None:
    job = Job(**json.loads((folder / "job.json").read_text()))
    inputs = dict(np.load(folder / "inputs.npz"))
    count = len(next(iter(inputs.values())))
    slots = [{name: array[slot] for name, array in inputs.items()} for slot in range(count)]
    report = launch(job, slots, folder)
    (folder / "report.json").write_text(json.dumps(report))


def launch(job: Job, slots: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    runner = build_runner(job)
    report: dict[str, Any] = {}
    started = time.perf_counter_ns()
    stages = {"load": runner.load(job), "prepare": runner.prepare()}
    report["compilations"] = [runner.compilations()]
    operation = runner.operation(job.operation, slots)
    stages["compile"] = operation.compile()
    if all(stage != "first_call" for stage, _ in stages["compile"]):
        stages["first_call"] = [("first_call", _timed_call(operation, 0))]
    report["cold_start_ns"] = time.perf_counter_ns() - started
    report |= {"stages": stages, "items": operation.items}
    report["compilations"].append(runner.compilations())
    facts = runner.facts()
    report |= {"effective": facts.effective, "versions": facts.versions, "details": facts.details}
    _write_outputs(operation, len(slots), folder)
    report |= {"memory": runner.memory(reset=True), "not_applicable": dict(runner.not_applicable)}
    report["children_s"] = sum(os.times()[2:4])
    report["frameworks_imported"] = [name for name in FRAMEWORKS if name in sys.modules]
    report["compilations"].append(runner.compilations())
    runner.close()
    return report


def _timed_call(operation: Operation, slot: int) -> int:
    started = time.perf_counter_ns()
    operation.begin(slot)
    operation.call()
    operation.wait()
    return time.perf_counter_ns() - started


def _write_outputs(operation: Operation, slots: int, folder: Path) -> None:
    """All are taken before any is written: outputs must not change under later calls."""
    outputs = []
    for slot in range(slots):
        _timed_call(operation, slot)
        outputs.append(operation.outputs())
    for slot, arrays in enumerate(outputs):
        np.savez(folder / f"slot-{slot}.npz", **arrays)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(Path(argument))
