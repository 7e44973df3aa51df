"""`parity_spread_process.py CHECKPOINT INPUTS TASK THREADS SCRATCH`: one model in every dtype, by the eager runner, in its stack.

Prints one line of JSON: dtype -> [largest difference, root mean square in the worst row], in units of the root mean square of the
float32 outputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = ("float64", "tf32", "float16", "bfloat16", "int8")
REFERENCE = "float32"
TF32_BITS = 10  # of the mantissa, of float32's 23

Outputs = list[dict[str, np.ndarray[Any, Any]]]


def outputs(dtype: str) -> Outputs:
    """Of all slots. Imports are here, as the host reads `DTYPES` of this file."""
    from harness_pytorch.runner import EagerRunner

    from harness.worker.api import Job
    from harness.worker.arrays import read_inputs, slots_of

    checkpoint, inputs, task, threads, scratch = sys.argv[1:6]
    slots = slots_of(read_inputs(Path(inputs)))
    places = {"folder": scratch, "scratch": scratch, "cache": scratch, "inputs": inputs, "checkpoint": checkpoint}
    shape = {"batch_size": len(next(iter(slots[0].values()))), "sequence_length": 0}
    names = {"runner": "", "backend": "eager", "task": task, "operation": "forward", "device": "cpu"}
    in_effect = REFERENCE if dtype == "tf32" else dtype
    job = Job(**names, **places, **shape, dtype=in_effect, threads=int(threads))
    runner = EagerRunner()
    runner.load(job)
    runner.prepare()
    operation = runner.operation("forward", slots)
    found = []
    with rounding() if dtype == "tf32" else nullcontext():
        for slot in range(len(slots)):
            operation.begin(slot)
            operation.call()
            found.append(dict(operation.outputs()))
    if (got := runner.facts().effective["dtype"]) != in_effect:
        raise LookupError(got)
    runner.close()
    return found


def rounding() -> AbstractContextManager[Any]:
    """While it lasts, both sides of every product are rounded to TF32's mantissa first, as tensor cores do; sums are float32."""
    import torch
    from torch.overrides import TorchFunctionMode

    half, kept = 1 << (22 - TF32_BITS), -(1 << (23 - TF32_BITS))

    def rounded(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        return ((value.contiguous().view(torch.int32) + half) & kept).view(torch.float32)

    factors: Mapping[Callable[..., Any], slice] = {
        torch.nn.functional.linear: slice(0, 2),
        torch.matmul: slice(0, 2),
        torch.bmm: slice(0, 2),
        torch.Tensor.matmul: slice(0, 2),
        torch.Tensor.__matmul__: slice(0, 2),
        torch.addmm: slice(1, 3),  # bias, then the two factors
        torch.baddbmm: slice(1, 3),
        torch.nn.functional.conv2d: slice(0, 2),
        torch.conv2d: slice(0, 2),
    }

    class Rounding(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            place = factors.get(function, slice(0, 0))
            arguments = list(arguments)
            arguments[place] = map(rounded, arguments[place])
            return function(*arguments, **(keywords or {}))

    return Rounding()


def spread(reference: Outputs, found: Outputs) -> list[float]:
    """The largest difference, and the root mean square of those of the worst row; over all slots and outputs."""
    pairs = [(expected[name], slot[name]) for expected, slot in zip(reference, found, strict=True) for name in expected]
    relative = [(a.astype(np.float64) - b) / np.sqrt(np.mean(np.square(a, dtype=np.float64))) for a, b in pairs]
    rows = [np.sqrt(np.mean(np.square(each.reshape(len(each), -1)), axis=1)) for each in relative]
    return [float(max(np.abs(each).max() for each in relative)), float(max(each.max() for each in rows))]


def main() -> None:
    reference = outputs(REFERENCE)
    told = {}
    for dtype in DTYPES:
        try:
            told[dtype] = spread(reference, outputs(dtype))
        except Exception as error:  # layers that int8 leaves as they are, a kernel that is not there
            told[dtype] = str(error) if isinstance(error, LookupError) else type(error).__name__
    print(json.dumps(told))


if __name__ == "__main__":
    main()
