"""BetterTransformer: a Transformers model whose encoder layers optimum has replaced by PyTorch's fused one.

Timed is one call of the model as users write it, `model(**inputs)` under `torch.inference_mode()`. On the CPU a call that returned
is done. The fused layers are given nested tensors, in which rows have no padding: where they had some, outputs are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import transformers
from optimum.bettertransformer import BetterTransformer

from harness.tasks import TASKS
from harness.worker import api
from harness.worker.bases import BaseForward, BaseRunner
from harness.worker.pretrained import in_effect, read_model, set_threads, task_classes, weights_bytes

DISTRIBUTIONS = ("optimum", "torch", "transformers", "numpy")
CLASSES = task_classes(transformers)

FUSED_LAYER = "aten::_transformer_encoder_layer_fwd"
"""The operator that a whole layer is."""


class Forward(BaseForward):
    """One forward pass."""

    def place(self, arrays: api.Arrays) -> dict[str, torch.Tensor]:
        """Copies as tensors."""
        return {name: torch.tensor(array) for name, array in arrays.items()}

    def call(self, mark: api.Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed."""
        with torch.inference_mode():
            self.last = self.runner.model(**self.inputs)

    def outputs(self) -> api.Arrays:
        """What of the last call is compared, copied. What is padding in every row the fused layers cut off: zeros stand for it."""
        outputs = {name: self.last[name].numpy().copy() for name in self.names}
        if TASKS[self.runner.job.task].is_per_token and "input_ids" in self.inputs:
            length = self.inputs["input_ids"].shape[1]
            return {name: lengthened(output, length) for name, output in outputs.items()}
        return outputs


def lengthened(output: Any, length: int) -> Any:
    """With zeros behind, to a length of its second dimension."""
    zeros = np.zeros_like(output, shape=(len(output), length - output.shape[1], *output.shape[2:]))
    return np.concatenate([output, zeros], axis=1)


class BetterTransformerRunner(BaseRunner):
    """One transformed model."""

    not_applicable: Mapping[str, str] = {"compile": "PyTorch runs operator by operator and compiles nothing"}
    operations: Mapping[str, Any] = {"forward": Forward}

    def load(self, job: api.Job) -> api.Stages:
        """Read the model. Raises Unsupported where the checkpoint lacks weights that the task needs."""
        self.job = job
        set_threads(torch, job.threads)
        watch = api.Stopwatch()
        # The layers to be replaced are those of eager attention: their masks are what the fused one is given.
        how = {"torch_dtype": torch.float32, "attn_implementation": "eager"}
        self.model = read_model(CLASSES[job.task], job.checkpoint, **how)
        watch.lap("read")
        return watch.laps

    def prepare(self) -> api.Stages:
        """Replace the layers. Raises Unsupported where the model is none that optimum can do so with."""
        watch = api.Stopwatch()
        try:
            self.model = BetterTransformer.transform(self.model)
        except (NotImplementedError, ValueError) as error:
            raise api.Unsupported(f"BetterTransformer refuses the model: {error}") from error
        watch.lap("transform")
        return watch.laps

    def facts(self) -> api.Facts:
        """One more call is made, to see whether it ends up in the fused layer."""
        with torch.autograd.profiler.profile(use_kineto=False) as profile:
            self.running.call()
        layers = [type(each).__name__ for each in self.model.modules() if "BetterTransformer" in type(each).__name__]
        effective = {
            **in_effect(self.model),
            "threads": torch.get_num_threads(),
            # Tensors made in inference mode know it for ever.
            "inference_mode": all(self.running.last[name].is_inference() for name in self.running.names),
            "transformed": bool(layers),
            "fused_layer_called": any(event.name == FUSED_LAYER for event in profile.function_events),
        }
        details = {"model_class": type(self.model).__name__, "replaced_layers": len(layers), "layer_class": layers[:1]}
        return api.Facts(effective, api.versions_of(DISTRIBUTIONS), details)

    def memory(self, *, reset: bool = False) -> api.Counters:  # noqa: ARG002 - PyTorch's CPU allocator has no peaks to reset
        """The weights."""
        return api.cpu_counters("PyTorch's CPU allocator counts nothing", weights_bytes=weights_bytes(self.model))
