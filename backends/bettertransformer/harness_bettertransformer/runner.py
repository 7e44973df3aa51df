"""BetterTransformer: a Transformers model whose encoder layers optimum has replaced by PyTorch's fused one.

Timed is one call of the model as users write it, `model(**inputs)` under `torch.inference_mode()`. On the CPU a call that returned
is done. The fused layers are given nested tensors, in which rows have no padding: where they had some, outputs are zeros.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch
import transformers
from optimum.bettertransformer import BetterTransformer

from harness.tasks import TASKS, Task
from harness.worker.api import RUNNERS_COUNTERS, Arrays, Counters, Facts, Job, Mark, Stages, Stopwatch, Unsupported
from harness.worker.items import count_items
from harness.worker.weights import refuse_missing

DISTRIBUTIONS = ("optimum", "torch", "transformers", "numpy")

CLASSES = {name: getattr(transformers, task.auto_class) for name, task in TASKS.items()}
"""By task. Named here and not where they are used, so that Transformers imports them now."""

FUSED_LAYER = "aten::_transformer_encoder_layer_fwd"
"""The operator that a whole layer is."""


class BetterTransformerRunner:
    """One transformed model."""

    not_applicable: Mapping[str, str] = {"compile": "PyTorch runs operator by operator and compiles nothing"}

    def load(self, job: Job) -> Stages:
        """Read the model. Raises Unsupported where the checkpoint lacks weights that the task needs."""
        self._job = job
        torch.set_num_threads(job.threads)
        if torch.get_num_interop_threads() != 1:  # may be set once per process
            torch.set_num_interop_threads(1)
        watch = Stopwatch()
        # The layers to be replaced are those of eager attention: their masks are what the fused one is given.
        model, info = CLASSES[job.task].from_pretrained(
            job.checkpoint,
            torch_dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            output_loading_info=True,
        )
        refuse_missing(info["missing_keys"], model)
        self._model = model.eval()
        watch.lap("read")
        return watch.laps

    def prepare(self) -> Stages:
        """Replace the layers. Raises Unsupported where the model is none that optimum can do so with."""
        watch = Stopwatch()
        try:
            self._model = BetterTransformer.transform(self._model)
        except (NotImplementedError, ValueError) as error:
            raise Unsupported(f"BetterTransformer refuses the model: {error}") from error
        watch.lap("transform")
        return watch.laps

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward:  # noqa: ARG002 - there is but one
        """The forward pass, the one operation that the plugin declares."""
        self._operation = Forward(self._model, slots, TASKS[self._job.task])
        return self._operation

    def facts(self) -> Facts:
        """One more call is made, to see whether it ends up in the fused layer."""
        with torch.autograd.profiler.profile(use_kineto=False) as profile:
            self._operation.call()
        layers = [type(each).__name__ for each in self._model.modules() if "BetterTransformer" in type(each).__name__]
        effective = {
            "device": "+".join(sorted({parameter.device.type for parameter in self._model.parameters()})),
            "dtype": "+".join(sorted({str(each.dtype).removeprefix("torch.") for each in self._model.parameters()})),
            "threads": torch.get_num_threads(),
            "eval_mode": not any(module.training for module in self._model.modules()),
            "inference_mode": self._operation.ran_in_inference_mode(),
            "transformed": bool(layers),
            "fused_layer_called": any(event.name == FUSED_LAYER for event in profile.function_events),
        }
        details = {"model_class": type(self._model).__name__, "replaced_layers": len(layers), "layer_class": layers[:1]}
        return Facts(effective, {name: version(name) for name in DISTRIBUTIONS}, details)

    def compilations(self) -> int:
        """Nothing is compiled."""
        return 0

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - PyTorch's CPU allocator has no peaks to reset
        """The weights."""
        untold = dict.fromkeys(RUNNERS_COUNTERS, "PyTorch's CPU allocator counts nothing")
        weights_bytes = sum(parameter.nbytes for parameter in self._model.parameters())
        return {**untold, "device_context_bytes": "a CPU has no context", "weights_bytes": weights_bytes}

    def close(self) -> None:
        """Free model, inputs and outputs; also of a runner that failed before it had them."""
        if hasattr(self, "_operation"):
            self._operation.__dict__.clear()
        self.__dict__.clear()
        gc.collect()


class Forward:
    """One forward pass."""

    calls_per_begin = None

    def __init__(self, model: torch.nn.Module, slots: Sequence[Arrays], task: Task) -> None:
        self.items: Mapping[str, int] = count_items(slots[0])
        self._model, self._task = model, task
        self._slots = [_tensors(slot) for slot in slots]

    def compile(self) -> Stages:
        """Nothing."""
        return ()

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._inputs = self._slots[slot]

    def transfer(self, arrays: Arrays) -> None:
        """Put in place an input that is in no slot."""
        self._inputs = _tensors(arrays)

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed."""
        with torch.inference_mode():
            self._last: Any = self._model(**self._inputs)

    def wait(self) -> None:
        """A call that returned is done."""

    def outputs(self) -> Arrays:
        """What of the last call is compared, copied. What is padding in every row the fused layers cut off: zeros stand for it."""
        outputs = {name: self._last[name] for name in self._task.outputs}
        if self._task.is_per_token and "input_ids" in self._inputs:
            length = self._inputs["input_ids"].shape[1]
            outputs = {name: _lengthened(output, length) for name, output in outputs.items()}
        return {name: output.numpy().copy() for name, output in outputs.items()}

    def ran_in_inference_mode(self) -> bool:
        """Told by the outputs of the last call: tensors made in inference mode know it for ever."""
        return all(self._last[name].is_inference() for name in self._task.outputs)


def _tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array) for name, array in arrays.items()}


def _lengthened(output: torch.Tensor, length: int) -> torch.Tensor:
    """With zeros behind, to a length of its second dimension."""
    behind_it = (0, 0) * (output.ndim - 2)
    return torch.nn.functional.pad(output, (*behind_it, 0, length - output.shape[1]))
