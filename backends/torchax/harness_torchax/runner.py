"""torchax: a PyTorch model of Transformers as JAX traces it and XLA compiles it, ahead of time, for the shape of its inputs.

Timed is one call of the compiled program, `compiled(weights, inputs)`, with both on the device; outputs stay there. Calls are
asynchronous and run one after the other, so waiting for the last one is waiting for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import torch
import transformers

from harness.worker import api, xla
from harness.worker.bases import BaseForward, BaseRunner
from harness.worker.pretrained import in_effect, read_model, task_classes
from harness_torchax.overloads import torchax

DISTRIBUTIONS = ("torchax", "jax", "jaxlib", "torch", "transformers", "numpy")
CLASSES = task_classes(transformers)


class Forward(BaseForward):
    """One forward pass, compiled for the shape of its slots."""

    def place(self, arrays: api.Arrays) -> dict[str, jax.Array]:
        """Copies on the device; numbers in 32 bits, as JAX has them."""
        return jax.block_until_ready(xla.on_device(jax, arrays, "float32"))

    def compile(self) -> api.Stages:
        """Trace to JAX's language, lower to XLA's, compile. Raises Unsupported where torchax lacks an operator of the model."""
        self.place_slots()
        self._weights = self.runner.weights
        try:
            ahead = xla.compile_ahead(jax, self._function, self._weights, self.placed[0])
        except torchax.tensor.OperatorNotFound as error:
            raise api.Unsupported(f"torchax cannot run the model: {error}") from error
        self.compiled = ahead.compiled
        return ahead.stages

    def call(self, mark: api.Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed. Returns before the device is done."""
        self.last = self.compiled(self._weights, self.inputs)

    def wait(self) -> None:
        """Until the device is done."""
        jax.block_until_ready(self.last)

    def _function(self, weights: Any, inputs: Any) -> Any:
        computed = self.runner.function(weights, (), inputs)
        return {name: computed[name] for name in self.names}


class TorchaxRunner(BaseRunner):
    """One model."""

    not_applicable: Mapping[str, str] = {"prepare": "torchax runs the checkpoint as it is"}
    operations: Mapping[str, Any] = {"forward": Forward}

    def load(self, job: api.Job) -> api.Stages:
        """Make JAX's client; read the model with PyTorch, then copy its weights into JAX's arrays and drop PyTorch's."""
        self.job = job
        watch = api.Stopwatch()
        xla.set_threads(job.threads)
        jax.config.update("jax_platforms", job.device)
        jax.config.update("jax_enable_compilation_cache", False)
        self._compilations = xla.Compilations(jax)
        jax.devices()
        watch.lap("client")
        self._model = read_model(CLASSES[job.task], job.checkpoint, dtype=torch.float32)
        watch.lap("read")
        self.weights, self.function = torchax.extract_jax(self._model)
        jax.block_until_ready(self.weights)
        self._model.to("meta")
        watch.lap("to_jax")
        return watch.laps

    def facts(self) -> api.Facts:
        """Read back from the arrays, the program and this process's threads."""
        arrays, compiled = jax.tree.leaves(self.weights), self.running.compiled
        effective = {
            "device": "+".join(sorted({device.platform for array in arrays for device in array.devices()})),
            "dtype": xla.dtype(arrays),
            "threads": xla.pool_threads(),
            "eval_mode": in_effect(self._model)["eval_mode"],
            "inference_mode": isinstance(compiled, jax.stages.Compiled),  # JAX derives no gradients of one
        }
        details = {"model_class": type(self._model).__name__, "flops": compiled.cost_analysis().get("flops")}
        return api.Facts(effective, api.versions_of(DISTRIBUTIONS), details)

    def compilations(self) -> int:
        """Everything that XLA compiled, the few small programs that JAX needs while loading included."""
        return self._compilations.count

    def memory(self, *, reset: bool = False) -> api.Counters:  # noqa: ARG002 - there are no peaks to reset
        """The weights."""
        weights_bytes = xla.nbytes(jax.tree.leaves(self.weights))
        return api.cpu_counters("XLA's allocator counts nothing on CPU", weights_bytes=weights_bytes)

    def close(self) -> None:
        """Free weights, programs, inputs and outputs; also of a runner that failed before it had them."""
        if hasattr(self, "_compilations"):
            self._compilations.close()
        super().close()
        jax.clear_caches()
