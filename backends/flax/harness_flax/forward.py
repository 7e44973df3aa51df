"""The forward pass.

Timed is one call of the compiled program, `compiled(weights, inputs)`, with both on the device; outputs stay there. What a model
computes besides what is compared is part of the program, as it is of eager's call: BERT's pooler.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from transformers import FlaxPreTrainedModel

from harness.tasks import TASKS
from harness.worker.api import Arrays, Unsupported
from harness.worker.items import count_items
from harness_flax.programs import Function, Loaded, OneProgram, Values
from harness_flax.repairs import Weights

EVALUATION = {"train": False, "deterministic": True}
"""How Flax models are told to evaluate: each takes one of the two."""


class Forward(OneProgram):
    """One forward pass."""

    def __init__(self, loaded: Loaded, slots: Sequence[Arrays]) -> None:
        """Raises Unsupported for inputs that the model does not take."""
        function = _forward_function(loaded.definition.model, slots[0].keys())
        super().__init__(loaded, function, [loaded.on_device(slot) for slot in slots], count_items(slots[0]))

    def transfer(self, arrays: Arrays) -> None:
        """Copy an input to the device, for the next call; it is there when this returns."""
        self._inputs = jax.block_until_ready(self._loaded.on_device(arrays))

    def outputs(self) -> Arrays:
        """What of the last call is compared, a float32 copy on the host."""
        return {name: np.array(self._last[name], np.float32) for name in TASKS[self._loaded.job.task].outputs}


def _forward_function(model: FlaxPreTrainedModel, names: Iterable[str]) -> Function:
    """The model as a function of weights and inputs. Raises Unsupported for inputs that it does not take."""
    takes = inspect.signature(type(model).__call__).parameters
    if unknown := [name for name in names if name not in takes]:
        raise Unsupported(f"{type(model).__name__} takes no {' and no '.join(unknown)}")
    evaluation = {name: value for name, value in EVALUATION.items() if name in takes}

    def forward(weights: Weights, inputs: Values) -> dict[str, Any]:
        return dict(model(**inputs, params=weights, **evaluation))

    return forward
