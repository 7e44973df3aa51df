"""`python -I drive_runner.py FOLDER...`: leads a runner through a launch for each folder, inside its stack.

Reads FOLDER/job.json and FOLDER/inputs.npz, which holds each input as (slots, batch, ...); writes FOLDER/report.json and
FOLDER/slot-{i}.npz, or in the report what the runner raised. What the worker would do is done here in its order, and told in
full, so that tests can look at what the worker keeps to itself. Several folders share a process, to import the framework once, and
one that exports, too: for tests that look at outputs and facts.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.worker.api import Arrays, Job, Operation
from harness.worker.checks import build_runner
from harness.worker.decoding import decode_outputs
from harness.worker.marks import Stamps

FRAMEWORKS = ("jax", "onnx", "onnxruntime", "optimum", "torch", "transformers")


def main(folder: Path) -> None:
    job = Job(**json.loads((folder / "job.json").read_text()))
    inputs = dict(np.load(folder / "inputs.npz"))
    count = len(next(iter(inputs.values())))
    slots = [{name: array[slot] for name, array in inputs.items()} for slot in range(count)]
    try:
        report = launch(job, slots, folder)
    except Exception as error:  # the others of this process go on
        report = {"raised": "".join(traceback.format_exception(error))}
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
    _write_outputs(operation, decode_outputs if job.operation == "decode" else _call_outputs, len(slots), folder)
    report |= {"memory": runner.memory(reset=True), "not_applicable": dict(runner.not_applicable)}
    if job.operation == "generate":
        report["marks"] = _marks(operation)
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


def _marks(operation: Operation) -> list[tuple[str, int]]:
    """Names and nanoseconds that a call stamps."""
    stamps = Stamps(operation.call)
    operation.begin(0)
    stamps.call()
    stamped = stamps.stamped()
    return list(zip(stamped.names, stamped.since_start_ns[0].tolist(), strict=True))


def _call_outputs(operation: Operation, slot: int) -> Arrays:
    _timed_call(operation, slot)
    return operation.outputs()


def _write_outputs(
    operation: Operation, outputs_of: Callable[[Operation, int], Arrays], slots: int, folder: Path
) -> None:
    """All are taken before any is written: outputs must not change under later calls."""
    outputs = [outputs_of(operation, slot) for slot in range(slots)]
    for slot, arrays in enumerate(outputs):
        np.savez(folder / f"slot-{slot}.npz", **arrays)


def share_exporter() -> None:
    """Where the stack exports, let one process do it for every launch: importing optimum takes longer than exporting."""
    with contextlib.suppress(ImportError):
        from harness_onnxruntime import runner

        exporter = functools.cache(runner.Helper)

        class Shared:
            """Ends with this process."""

            def __init__(self, *arguments: str) -> None:
                self._arguments = arguments

            def ask(self, step: str, **arguments: Any) -> Any:
                return exporter(*self._arguments).ask(step, **arguments)

            def close(self) -> None:
                pass

        runner.Helper = Shared


if __name__ == "__main__":
    if len(sys.argv) > 2:
        share_exporter()
    for argument in sys.argv[1:]:
        main(Path(argument))
