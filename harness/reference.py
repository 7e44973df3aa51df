"""The outputs a workload is judged against: float32, from the reference backend, by an untimed launch of its own.

Content-addressed by workload and stack, so that it is made once and reused by every run. Never one of the launches that are
measured: a backend would be judged against itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import cache, parity
from harness.block import BlockContext, Launch, PreparedCell, Reference
from harness.launch import LaunchEndedError
from harness.model import Backend, Cell, LaunchRecord, digest
from harness.tasks import GENERATION, TASKS
from harness.worker.arrays import write_npz
from harness.worker.decoding import stacked, step_outputs

REFERENCE_DTYPE = "float32"


class _NotMadeError(Exception):
    """The text says why there is no reference."""


def reference_cell(cell: Cell, backend: Backend) -> Cell:
    """The cell whose outputs a cell is judged against: same workload, float32, the backend's defaults.

    Of a greedy or sampling generate it is the decode loop, so that the library's generate is held to what it should come to.
    """
    options = {option.name: option.default for option in backend.options}
    changes = {"backend": backend.name, "dtype": REFERENCE_DTYPE, "options": options, "compile_cache": "cold"}
    return cell.model_copy(update={**changes, **_greedy(cell)})


def _greedy(cell: Cell) -> Mapping[str, Any]:
    if cell.operation != "generate" or cell.num_beams > 1:
        return {}
    if cell.new_tokens == 1:  # there is no step to time, and so no decode of it
        return {"operation": "prefill", "new_tokens": None, "do_sample": False}
    return {"operation": "decode", "do_sample": False}


def obtain(prepared: PreparedCell, context: BlockContext, operation: str) -> Reference:
    """The outputs of a reference cell: found in the cache, or made now. A launch that fails is a reason, no exception.

    `operation`: of the cells that are to be judged.
    """
    made_of = [prepared.cell.key, prepared.hashes.stack_hash, prepared.inputs.sha256, prepared.checkpoint.sha256]

    def fill(folder: Path) -> Mapping[str, Any]:
        for slot, arrays in enumerate(_make(prepared, context)):
            write_npz(folder / f"slot-{slot}.npz", arrays)
        return {"cell": prepared.cell.model_dump(mode="json")}

    try:
        entry = cache.keep(cache.room("references") / digest(made_of), fill, context.doing)
    except _NotMadeError as error:
        return Reference(None, str(error))
    outputs = parity.read_outputs(entry.folder, prepared.cell.inputs.slots)
    if operation == "generate" and prepared.cell.operation == "prefill":
        return Reference([stacked([step_outputs(slot)]) for slot in outputs])
    return Reference(_without_padding(outputs, prepared))


def _without_padding(outputs: Sequence[parity.Outputs], prepared: PreparedCell) -> Sequence[parity.Outputs]:
    """Of generation there is nothing to leave out: its outputs are of the last positions, which are never padding."""
    cell, mask = prepared.cell, prepared.inputs.folder / "attention_mask.npy"
    has_padding = TASKS[cell.task].is_per_token and cell.operation not in GENERATION and mask.is_file()
    return parity.without_padding(outputs, np.load(mask) if has_padding else None, TASKS[cell.task].outputs)


def _make(prepared: PreparedCell, context: BlockContext) -> Sequence[parity.Outputs]:
    context.doing(f"making the reference with {prepared.cell.label}")
    records: list[LaunchRecord] = []
    launch = Launch(prepared, replace(context, keep=records.append), "reference", 0, ())
    try:
        outputs = _collect(launch)
    except LaunchEndedError as ended:
        launch.end(ended.status, ended.error)
        raise _NotMadeError(
            f"the reference launch ({prepared.cell.label}) {ended.status}: {ended.error.message}"
        ) from None
    except BaseException:
        launch.kill()
        raise
    if any(np.isnan(array).any() for slot in outputs for array in slot.values()):
        raise _NotMadeError(f"the reference launch ({prepared.cell.label}) gave NaN")
    return outputs


def _collect(launch: Launch) -> Sequence[parity.Outputs]:
    for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.cold_start):
        step(launch)
    outputs = launch.collect_outputs()
    launch.close()
    return outputs
