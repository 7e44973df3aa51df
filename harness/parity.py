"""Judges outputs against the reference, on the host, with numpy alone: a runner cannot grade its own work.

Measured are the largest difference of any value, and the root mean square of a row's, in units of the reference's root mean square,
so that they mean the same for a model whose outputs are near 1 and one whose logits are near 30. Docs: docs/methodology.md,
"Parity".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.model import Cell, ParityRecord
from harness.token_parity import judge_tokens
from harness.worker.arrays import at_tokens

Outputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Tolerance:
    """How far outputs may be from the reference's, in units of the root mean square of the reference's output."""

    largest: float  # of any value
    typical: float  # root mean square over a row of the batch, of the worst row; and, of logits, of two tokens that are as likely


TOLERANCES = {
    "float32": Tolerance(1e-3, 1e-3),
    "tf32": Tolerance(1e-1, 1e-2),
    "float16": Tolerance(1.5e-1, 1.5e-2),
    "bfloat16": Tolerance(1.2, 1e-1),
    "int8": Tolerance(10.0, 1.0),
}
"""By `precision`: twice eager's own spread, how far it is from float32 in each over MiniLM, SmolLM2 and eight seeded models
(`benchmarks/parity_spread.py`; the largest, and a row's: TF32 0.047, 0.0039; float16 0.071, 0.009; bfloat16 0.55, 0.054;
int8 4.2, 0.46).

float32 itself is off by 1.8e-5, but backends that are right fuse and approximate, and differ by up to 2e-4; the wrong paths met so
far by 0.2 and more. int8 finds little but rubbish, by rows: unrelated outputs differ by 1.4. How good it is,
`harness.accuracy` tells.
"""

MATMUL_PRECISIONS = {"high": "tf32", "medium": "bfloat16"}
"""What float32 products may be computed in by a backend's option `matmul_precision`, in the words of PyTorch."""


def precision(cell: Cell) -> str:
    """What a cell's products may be computed in: a name of `TOLERANCES`. Its dtype, unless an option allows float32 less."""
    allowed = MATMUL_PRECISIONS.get(str(cell.options.get("matmul_precision")))
    return allowed if allowed and cell.dtype == "float32" else cell.dtype


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
        {**slot, **{name: at_tokens(slot[name], mask, elsewhere=np.nan) for name in names}}
        for slot, mask in zip(outputs, attention_mask, strict=True)
    ]


def judge(
    reference: Sequence[Outputs],
    outputs: Sequence[Outputs],
    precision: str,
    when: Literal["before", "after"],
    eos_token_ids: Sequence[int] = (),
) -> ParityRecord:
    """Compare every slot's outputs with the reference's.

    The reference's names are those that count: an output that only the backend has is no fault. Where the reference is not
    finite, anything will do. Tokens are judged as such, up to the reference's end-of-text where `eos_token_ids` end texts:
    `harness.token_parity`.
    """
    if len(outputs) != len(reference):
        return _failed(when, f"{len(outputs)} slots of outputs, the reference has {len(reference)}")
    pairs = [(_to_be_met(r, o), o) for r, o in zip(reference, outputs, strict=True)]
    complaint = _first(_shape_complaint(slot, *pair) for slot, pair in enumerate(pairs))
    if complaint:
        return _failed(when, complaint)
    complaint = _first(_finite_complaint(slot, *pair) for slot, pair in enumerate(pairs))
    if complaint:
        return ParityRecord(when=when, passed=False, max_abs=None, message=complaint, finite=False)
    if "tokens" in reference[0]:
        allowed = [TOLERANCES[precision].typical * _token_scale(slot) for slot in reference]
        return judge_tokens(reference, outputs, allowed, when, eos_token_ids)
    return _judge_values(reference, outputs, TOLERANCES[precision], when)


def _to_be_met(reference: Outputs, outputs: Outputs) -> Outputs:
    """Of the reference, what the outputs must have: of a generation that hands over its tokens alone no logits."""
    logits = {"top_tokens", "top_logits"} if "tokens" in reference and "top_logits" not in outputs else set()
    return {name: array for name, array in reference.items() if name not in logits}


def _token_scale(reference: Outputs) -> float:
    """Of the logits that tokens were chosen by, or of the scores of beams."""
    return _scale(reference["sequences_scores" if "sequences_scores" in reference else "top_logits"])


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
        if complaint := kind_complaint(name, outputs[name]):
            return f"slot {slot}: it {complaint}"
    return None


def kind_complaint(name: str, output: npt.NDArray[Any]) -> str | None:
    """Where an output is no array of numbers: a dtype that numpy does not know, such as bfloat16, is read as bytes."""
    if output.dtype.kind in "biuf":
        return None
    return f"gave {name} as {output.dtype}, which are no numbers to numpy; outputs() is to give float32 or integers"


def _finite_complaint(slot: int, reference: Outputs, outputs: Outputs) -> str | None:
    for name, expected in reference.items():
        bad = ~np.isfinite(outputs[name]) & np.isfinite(expected)
        if bad.any():
            return f"slot {slot}: {name} has {int(bad.sum())} of {bad.size} values that are NaN or infinite"
    return None


def _judge_values(
    reference: Sequence[Outputs], outputs: Sequence[Outputs], tolerance: Tolerance, when: Literal["before", "after"]
) -> ParityRecord:
    places = [(slot, name) for slot, expected in enumerate(reference) for name in expected]
    found = [_judged(f"slot {i}: {name}", reference[i][name], outputs[i][name], tolerance) for i, name in places]
    worst = max(found, default=None)
    message = worst.text if worst and worst.times > 1 else None
    largest_abs = max((each.largest_abs for each in found), default=0.0)
    return ParityRecord(when=when, passed=message is None, max_abs=largest_abs, message=message)


@dataclass(frozen=True, order=True)
class _Judged:
    """One output of one slot. Orders by how far it is off."""

    times: float  # of what is allowed, by the measure that is worse for it
    text: str  # in words
    largest_abs: float


def _judged(where: str, wanted: npt.NDArray[Any], found: npt.NDArray[Any], tolerance: Tolerance) -> _Judged:
    """Differences are let go of before the next: in double precision, a whole vocabulary's take gigabytes."""
    difference, scale = _difference(wanted, found), _scale(wanted)
    largest_abs = _largest(difference)
    largest, typical = largest_abs / scale, _typical(difference) / scale
    return max(
        _Judged(
            largest / tolerance.largest,
            f"{where} differs by {largest:.2g} of the reference's root mean square, allowed is {tolerance.largest:g}",
            largest_abs,
        ),
        _Judged(
            typical / tolerance.typical,
            f"{where}: the root mean square of a row's differences is {typical:.2g} of the reference's, "
            f"allowed is {tolerance.typical:g}",
            largest_abs,
        ),
    )


def _difference(expected: npt.NDArray[Any], found: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """In double precision; 0 where the reference is not finite: its own infinity (a masked logit) is no difference."""
    difference = np.zeros(expected.shape)
    np.subtract(expected, found, out=difference, where=np.isfinite(expected), dtype=np.float64)
    return difference


def _largest(difference: npt.NDArray[np.float64]) -> float:
    return float(np.abs(difference).max()) if difference.size else 0.0


def _typical(difference: npt.NDArray[np.float64]) -> float:
    """The root mean square of each row of the batch, of the worst."""
    rows = difference.reshape(len(difference) if difference.ndim else 1, -1)
    return float(np.sqrt(np.mean(np.square(rows), axis=1)).max()) if rows.size else 0.0


def _scale(reference: npt.NDArray[Any]) -> float:
    finite = reference[np.isfinite(reference)].astype(np.float64)
    mean_square = float(np.mean(np.square(finite))) if finite.size else 0.0
    # An all-zero reference has no scale; a difference of one thousandth then counts as wrong.
    return mean_square**0.5 or 1.0
