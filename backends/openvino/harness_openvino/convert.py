"""The runner's helper: a checkpoint in, OpenVINO's form of it out, so that PyTorch is nowhere in the process that is measured.

Weights stay in float32, whatever they are computed in later.
"""

from __future__ import annotations

import sys
from pathlib import Path

# OpenVINO's converter tells its makers of each conversion, unless the package it tells them with is not there.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]

import openvino  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from harness.worker.arrays import read_inputs, slots_of  # noqa: E402
from harness.worker.helper import serve  # noqa: E402
from harness.worker.pretrained import read_model, task_classes  # noqa: E402

CLASSES = task_classes(transformers)


def convert(checkpoint: str, task: str, inputs: str, into: str) -> None:
    """Trace the model with its first input, and write it with names for what is compared. Raises Unsupported."""
    model = read_model(CLASSES[task], checkpoint, dtype=torch.float32)
    example = {name: torch.from_numpy(array) for name, array in slots_of(read_inputs(Path(inputs)))[0].items()}
    names = list(model(**example))
    converted = openvino.convert_model(model, example_input=example)
    for name, output in zip(names, converted.outputs, strict=True):
        output.get_tensor().set_names({name})
    openvino.save_model(converted, into, compress_to_fp16=False)


if __name__ == "__main__":
    serve({"convert": convert})
