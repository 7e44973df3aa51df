"""Judges outputs against the reference, on the host, with numpy alone: a runner cannot grade its own work.

The measure is the largest absolute difference over all slots and outputs, in units of the reference's root mean square, so
that it means the same for a model whose outputs are near 1 and one whose logits are near 30. Docs: docs/methodology.md, "Parity".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.model import ParityRecord

Outputs = Mapping[str, npt.NDArray[Any]]

TOLERANCES = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Allowed largest difference over root mean square of the reference, by the cell's dtype.

float32: backends that are right differ by 2e-5 and less on the models tried (another order of summation); the wrong paths met
so far by 0.2 and more. The 16-bit ones are eight to ten units in the last place of the dtype at the scale of the outputs.
"""


def read_outputs(folder: Path, slots: int) -> list[Outputs]:
    """The outputs of every slot, as a worker wrote them. Raises OSError or ValueError where a file is missing or broken."""
    return [_read_slot(folder / f"slot-{slot}.npz") for slot in range(slots)]


def _read_slot(file: Path) -> Outputs:
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def without_padding(
    outputs: Sequence[Outputs], attention_mask: npt.NDArray[Any] | None, names: Sequence[str]
) -> list[Outputs]:
    """Outputs in which what stands at padding is NaN: of a reference that is no value to be held to, see `judge`.

    `attention_mask` is of shape (slots, batch, tokens), None where there are no tokens; the outputs `names` are of shape
    (batch, tokens, ...).
    """
    if attention_mask is None:
        return list(outputs)
    return [
        {**slot, **{name: _masked(slot[name], mask) for name in names}}
        for slot, mask in zip(outputs, attention_mask, strict=True)
    ]


def _masked(output: npt.NDArray[Any], mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
    is_token = mask.astype(bool).reshape(*mask.shape, *[1] * (output.ndim - mask.ndim))
    return np.where(is_token, output, np.nan)


def judge(
    reference: Sequence[Outputs], outputs: Sequence[Outputs], dtype: str, when: Literal["before", "after"]
) -> ParityRecord:
    """Compare every slot's outputs with the reference's.

    The reference's names are those that count: an output that only the backend has is no fault. Where the reference is not
    finite, anything will do.
    """
    if len(outputs) != len(reference):
        return _failed(when, f"{len(outputs)} slots of outputs, the reference has {len(reference)}")
    complaint = _first(_shape_complaint(slot, r, o) for slot, (r, o) in enumerate(zip(reference, outputs, strict=True)))
    if complaint:
        return _failed(when, complaint)
    complaint = _first(
        _finite_complaint(slot, r, o) for slot, (r, o) in enumerate(zip(reference, outputs, strict=True))
    )
    if complaint:
        return ParityRecord(when=when, passed=False, max_abs=None, message=complaint, finite=False)
    return _judge_values(reference, outputs, TOLERANCES[dtype], when)


def _first(complaints: Any) -> str | None:
    return next((complaint for complaint in complaints if complaint), None)


def _failed(when: Literal["before", "after"], message: str) -> ParityRecord:
    return ParityRecord(when=when, passed=False, max_abs=None, message=message)


def _shape_complaint(slot: int, reference: Outputs, outputs: Outputs) -> str | None:
    for name, expected in reference.items():
        if name not in outputs:
            return f"slot {slot}: no output {name!r}; there are {sorted(outputs)}"
        if outputs[name].shape != expected.shape:
            return f"slot {slot}: {name} has shape {outputs[name].shape}, the reference {expected.shape}"
    return None


def _finite_complaint(slot: int, reference: Outputs, outputs: Outputs) -> str | None:
    for name, expected in reference.items():
        bad = ~np.isfinite(outputs[name]) & np.isfinite(expected)
        if bad.any():
            return f"slot {slot}: {name} has {int(bad.sum())} of {bad.size} values that are NaN or infinite"
    return None


def _judge_values(
    reference: Sequence[Outputs], outputs: Sequence[Outputs], tolerance: float, when: Literal["before", "after"]
) -> ParityRecord:
    worst_abs, worst_relative, worst_place = 0.0, 0.0, ""
    for slot, (expected, found) in enumerate(zip(reference, outputs, strict=True)):
        for name, wanted in expected.items():
            difference = _largest_difference(wanted, found[name])
            relative = difference / _scale(wanted)
            worst_abs = max(worst_abs, difference)
            if relative > worst_relative:
                worst_relative, worst_place = relative, f"slot {slot}: {name}"
    passed = worst_relative <= tolerance
    message = (
        None
        if passed
        else f"{worst_place} differs by {worst_relative:.2g} of the reference's root mean square, allowed is {tolerance:g}"
    )
    return ParityRecord(when=when, passed=passed, max_abs=worst_abs, message=message)


def _largest_difference(expected: npt.NDArray[Any], found: npt.NDArray[Any]) -> float:
    # float64, and only where the reference is finite: a reference's own infinity (a masked logit) is no difference.
    finite = np.isfinite(expected)
    difference = np.abs(expected[finite].astype(np.float64) - found[finite].astype(np.float64))
    return float(difference.max()) if difference.size else 0.0


def _scale(reference: npt.NDArray[Any]) -> float:
    finite = reference[np.isfinite(reference)].astype(np.float64)
    mean_square = float(np.mean(np.square(finite))) if finite.size else 0.0
    # An all-zero reference has no scale; a difference of one thousandth then counts as wrong.
    return mean_square**0.5 or 1.0
