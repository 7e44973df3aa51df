"""torchax: a PyTorch model of Transformers as JAX traces it and XLA compiles it, ahead of time, for the shape of its inputs.

Timed is one call of the compiled program, `compiled(weights, inputs)`, with both on the device; outputs stay there. Calls are
asynchronous and run one after the other, so waiting for the last one is waiting for all.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
import transformers

from harness.tasks import TASKS
from harness.worker.api import RUNNERS_COUNTERS, Arrays, Counters, Facts, Job, Mark, Stages, Stopwatch, Unsupported
from harness.worker.items import count_items
from harness.worker.weights import refuse_missing
from harness_torchax.overloads import torchax

DISTRIBUTIONS = ("torchax", "jax", "jaxlib", "torch", "transformers", "numpy")

CLASSES = {name: getattr(transformers, task.auto_class) for name, task in TASKS.items()}
"""By task. Named here and not where they are used, so that Transformers imports them now."""

COMPILED = "/jax/core/compile/backend_compile_duration"
"""What JAX tells its listeners for each program that XLA compiles."""

POOL = "tf_XLAEigen"
"""What the threads are called among which XLA divides operations on CPU."""


class TorchaxRunner:
    """One model."""

    not_applicable: Mapping[str, str] = {"prepare": "torchax runs the checkpoint as it is"}

    def load(self, job: Job) -> Stages:
        """Make JAX's client; read the model with PyTorch, then copy its weights into JAX's arrays and drop PyTorch's."""
        self._job, self._compilations = job, 0
        watch = Stopwatch()
        os.environ["NPROC"] = str(job.threads)  # XLA makes its pool of so many threads with the client
        jax.config.update("jax_platforms", job.device)
        jax.config.update("jax_enable_compilation_cache", False)
        jax.monitoring.register_event_duration_secs_listener(self._told)
        jax.devices()
        watch.lap("client")
        self._model = _read(job)
        watch.lap("read")
        self._weights, self._function = torchax.extract_jax(self._model)
        jax.block_until_ready(self._weights)
        self._model.to("meta")
        watch.lap("to_jax")
        return watch.laps

    def prepare(self) -> Stages:
        """Nothing."""
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward:  # noqa: ARG002 - there is but one
        """The forward pass, the one operation that the plugin declares."""
        outputs = TASKS[self._job.task].outputs

        def forward(weights: Any, inputs: Any) -> Any:
            computed = self._function(weights, (), inputs)
            return {name: computed[name] for name in outputs}

        self._operation = Forward(forward, self._weights, slots)
        return self._operation

    def facts(self) -> Facts:
        """Read back from the arrays, the program and this process's threads."""
        arrays = jax.tree.leaves(self._weights)
        floating = {array.dtype.name for array in arrays if jax.numpy.issubdtype(array.dtype, jax.numpy.floating)}
        effective = {
            "device": "+".join(sorted({device.platform for array in arrays for device in array.devices()})),
            "dtype": "+".join(sorted(floating)),
            "threads": sum((task / "comm").read_text().strip() == POOL for task in Path("/proc/self/task").iterdir()),
            "eval_mode": not any(module.training for module in self._model.modules()),
            "inference_mode": isinstance(
                self._operation.compiled, jax.stages.Compiled
            ),  # JAX derives no gradients of one
        }
        flops = self._operation.compiled.cost_analysis().get("flops")
        details = {"model_class": type(self._model).__name__, "flops": flops}
        return Facts(effective, {name: version(name) for name in DISTRIBUTIONS}, details)

    def compilations(self) -> int:
        """Everything that XLA compiled, the few small programs that JAX needs while loading included."""
        return self._compilations

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - there are no peaks to reset
        """The weights."""
        untold = dict.fromkeys(RUNNERS_COUNTERS, "XLA's allocator counts nothing on CPU")
        weights_bytes = sum(array.nbytes for array in jax.tree.leaves(self._weights))
        return {**untold, "device_context_bytes": "a CPU has no context", "weights_bytes": weights_bytes}

    def close(self) -> None:
        """Free weights, programs, inputs and outputs; also of a runner that failed before it had them."""
        if hasattr(self, "_operation"):
            self._operation.__dict__.clear()
        if hasattr(self, "_compilations"):
            jax.monitoring.unregister_event_duration_listener(self._told)
        self.__dict__.clear()
        jax.clear_caches()
        gc.collect()

    def _told(self, event: str, duration_s: float, **_: Any) -> None:  # noqa: ARG002 - JAX gives it
        self._compilations += event == COMPILED


class Forward:
    """One forward pass, compiled for the shape of its slots."""

    calls_per_begin = None

    def __init__(self, function: Any, weights: Any, slots: Sequence[Arrays]) -> None:
        self.items: Mapping[str, int] = count_items(slots[0])
        self._function, self._weights = function, weights
        self._slots = [_values(slot) for slot in slots]

    def compile(self) -> Stages:
        """Trace to JAX's language, lower to XLA's, compile. Raises Unsupported where torchax lacks an operator of the model."""
        watch = Stopwatch()
        try:
            traced = jax.jit(self._function).trace(self._weights, self._slots[0])
        except torchax.tensor.OperatorNotFound as error:
            raise Unsupported(f"torchax cannot run the model: {error}") from error
        watch.lap("trace")
        lowered = traced.lower()
        watch.lap("lower")
        self.compiled = lowered.compile()
        watch.lap("compile")
        return watch.laps

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._inputs = self._slots[slot]

    def transfer(self, arrays: Arrays) -> None:
        """Put in place an input that is in no slot."""
        self._inputs = jax.block_until_ready(_values(arrays))

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed. Returns before the device is done."""
        self._last = self.compiled(self._weights, self._inputs)

    def wait(self) -> None:
        """Until the device is done."""
        jax.block_until_ready(self._last)

    def outputs(self) -> Arrays:
        """What of the last call is compared, a float32 copy on the host."""
        return {name: np.array(value, np.float32) for name, value in self._last.items()}


def _read(job: Job) -> torch.nn.Module:
    """The model in evaluation mode. Raises Unsupported where the checkpoint lacks weights that the task needs."""
    model, info = CLASSES[job.task].from_pretrained(
        job.checkpoint, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    refuse_missing(info["missing_keys"], model)
    model.config.use_cache = False
    return model.eval()


def _values(arrays: Arrays) -> dict[str, jax.Array]:
    """Copies on the device; numbers in 32 bits, as JAX has them."""
    kinds = {
        name: np.float32 if np.issubdtype(array.dtype, np.floating) else np.int32 for name, array in arrays.items()
    }
    return {name: jax.device_put(array.astype(kinds[name])) for name, array in arrays.items()}
