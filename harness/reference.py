"""The outputs a workload is judged against: float32, from the reference backend, by an untimed launch of its own.

Content-addressed by workload and stack, so that it is made once and reused by every run. Never one of the launches that are
measured: a backend would be judged against itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import cache, parity
from harness.block import BlockContext, Launch, PreparedCell, Reference
from harness.launch import LaunchEndedError
from harness.model import Backend, Cell, LaunchRecord, digest
from harness.tasks import GENERATION, TASKS
from harness.worker.arrays import write_npz
from harness.worker.decoding import stacked, step_outputs

REFERENCE_DTYPE = "float32"

_GENERATED: Mapping[str, tuple[str, ...]] = {
    "prefill": ("logits",),
    "decode": ("tokens", "top_tokens", "top_logits"),
    "generate": ("tokens", "sequences_scores"),  # of beams: others are held to a decode
}
"""Operation -> the outputs that tokens are judged by; of all other operations those of the task are judged."""


class _NotMadeError(Exception):
    """The text says why there is no reference."""


def reference_cell(cell: Cell, backend: Backend) -> Cell:
    """The cell whose outputs a cell is judged against: same workload, float32, the backend's defaults.

    Of a greedy or sampling generate it is the decode loop, so that the library's generate is held to what it should come to. That
    loop goes on past end-of-text, and one made of it serves cells that stop there and cells that do not.
    """
    options = {option.name: option.default for option in backend.options}
    changes = {"backend": backend.name, "dtype": REFERENCE_DTYPE, "options": options, "compile_cache": "cold"}
    return cell.model_copy(update={**changes, **_greedy(cell)})


def _greedy(cell: Cell) -> Mapping[str, Any]:
    if cell.operation != "generate" or cell.num_beams > 1:
        return {}
    if cell.new_tokens == 1:  # there is no step to time, and so no decode of it
        return {"operation": "prefill", "new_tokens": None, "do_sample": False, "stop_at_eos": False}
    return {"operation": "decode", "do_sample": False, "stop_at_eos": False}


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
    return parity.without_padding(outputs, _attention_mask(prepared), TASKS[prepared.cell.task].outputs)


def _attention_mask(prepared: PreparedCell) -> npt.NDArray[Any] | None:
    """By slot, row and token, of outputs that have a value for each token given; None of all others."""
    cell, file = prepared.cell, prepared.inputs.folder / "attention_mask.npy"
    has_padding = TASKS[cell.task].is_per_token and cell.operation not in GENERATION and file.is_file()
    return np.load(file) if has_padding else None


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
    if fault := next(_faults(outputs, prepared), None):
        raise _NotMadeError(f"the reference launch ({prepared.cell.label}) {fault}")
    return outputs


def _faults(outputs: Sequence[parity.Outputs], prepared: PreparedCell) -> Iterator[str]:
    """What is wrong with a reference by itself, which nobody else holds to anything: it may be of a plugin's runner."""
    cell, mask = prepared.cell, _attention_mask(prepared)
    names = _GENERATED.get(cell.operation, TASKS[cell.task].outputs)
    for slot in outputs:
        yield from (f"gave no output {name!r}; there are {sorted(slot)}" for name in names if name not in slot)
        yield from filter(None, (parity.kind_complaint(name, array) for name, array in slot.items()))
        if any(np.isnan(array).any() for array in slot.values()):
            yield "gave NaN"
        shapes = {name: slot[name].shape for name in names}
        for name, shape in shapes.items():
            if mask is not None and shape[:2] != mask.shape[1:]:
                yield f"gave {name} of shape {shape}, not a value for each of {mask.shape[1]} x {mask.shape[2]} tokens"


def _collect(launch: Launch) -> Sequence[parity.Outputs]:
    for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.cold_start):
        step(launch)
    outputs = launch.collect_outputs()
    launch.close()
    return outputs
