"""`python -I -m harness_openvino.convert CHECKPOINT TASK INPUTS MODEL.xml`: a checkpoint in, OpenVINO's form of it out.

Says `ready` on stdout when everything is imported, and converts when it is sent a line. A second line on stdout says why the
model cannot be converted. Weights stay in float32, whatever they are computed in later.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

# OpenVINO's converter tells its makers of each conversion, unless the package it tells them with is not there.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]

import openvino  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from harness.tasks import TASKS  # noqa: E402
from harness.worker.api import Unsupported  # noqa: E402
from harness.worker.arrays import read_inputs, slots_of  # noqa: E402
from harness.worker.weights import refuse_missing  # noqa: E402

CLASSES = {name: getattr(transformers, task.auto_class) for name, task in TASKS.items()}
"""By task. Named here and not where they are used, so that Transformers imports them now."""


def convert(checkpoint: str, task: str, inputs: str, into: str) -> None:
    """Trace the model with its first input, and write it with names for what is compared. Raises Unsupported."""
    model, info = CLASSES[task].from_pretrained(
        checkpoint, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    refuse_missing(info["missing_keys"], model)
    model.eval()
    example = {name: torch.from_numpy(array) for name, array in slots_of(read_inputs(Path(inputs)))[0].items()}
    names = list(model(**example))
    converted = openvino.convert_model(model, example_input=example)
    for name, output in zip(names, converted.outputs, strict=True):
        output.get_tensor().set_names({name})
    openvino.save_model(converted, into, compress_to_fp16=False)


def main(told: TextIO) -> None:
    """What the module's first lines say."""
    told.write("ready\n")
    told.flush()
    if sys.stdin.readline():
        try:
            convert(*sys.argv[1:])
        except Unsupported as reason:
            told.write(f"{reason}\n")


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)  # whatever else is printed goes to stderr
        main(told)
