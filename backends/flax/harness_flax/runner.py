"""Flax: a Transformers model as JAX traces it and XLA compiles it, ahead of time, for the shape of its inputs.

Timed is one call of the compiled program, `compiled(weights, inputs)`, with both on the device; outputs stay there. Calls are
asynchronous and run one after the other, so waiting for the last one is waiting for all.

What a model computes besides what is compared is part of the program, as it is of eager's call: BERT's pooler.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import numpy.typing as npt

from harness.tasks import TASKS
from harness.worker.api import Arrays, Counters, Facts, Job, Mark, Stages, Stopwatch, Unsupported
from harness.worker.items import count_items
from harness_flax import facts
from harness_flax.compiling import CompileLog, set_up_cache
from harness_flax.loading import Definition, define, read_weights
from harness_flax.repairs import REPAIRS, Repair, Weights

Values = dict[str, jax.Array]

PLATFORMS = {"cpu": "cpu", "cuda": "cuda,cpu"}
"""What JAX calls the device kinds. The first is where everything goes."""

EVALUATION = {"train": False, "deterministic": True}
"""How Flax models are told to evaluate: each takes one of the two."""


class FlaxRunner:
    """One model in Flax."""

    not_applicable: Mapping[str, str] = {"prepare": "Flax runs the checkpoint as it is"}

    def __init__(self, repairs: Sequence[Repair] = REPAIRS) -> None:
        """The worker gives no arguments. A test that leaves a repair out sees what it is for."""
        self._repairs = repairs

    def load(self, job: Job) -> Stages:
        """Make JAX's client, define the model, then read its weights, in Flax's layouts, onto the device."""
        self._job = job
        watch = Stopwatch()
        set_up_cache(job)
        self._log = CompileLog()
        _set_up_device(job)
        watch.lap("client")
        self._definition = define(job, self._repairs)
        watch.lap("define")
        self._weights, self._unused = read_weights(self._definition, job)
        watch.lap("weights")
        return watch.laps

    def prepare(self) -> Stages:
        """Nothing."""
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward:
        """The forward pass. Raises Unsupported for any other operation, and for inputs that the model does not take."""
        if name != "forward":
            raise Unsupported(f"operation {name}: flax runs forward")
        function = _forward_function(self._definition, slots[0].keys())
        values = [self._values(slot) for slot in slots]
        outputs, items = TASKS[self._job.task].outputs, count_items(slots[0])
        self._operation = Forward(function, self._weights, values, outputs, items, self._log)
        return self._operation

    def facts(self) -> Facts:
        """A few more calls are made, to see how many cores they use."""
        operation = self._operation
        effective = {
            "device": facts.device(self._weights),
            "dtype": facts.dtype(self._weights),
            "threads": facts.pool_threads(),
            "eval_mode": not facts.draws_random_numbers(operation.traced),
            "inference_mode": isinstance(operation.compiled, jax.stages.Compiled),  # which JAX refuses to differentiate
            "compile_cache": self._warmth(),
        }
        details = {
            **facts.platform(),
            "cores_used": facts.cores_used(operation.call_and_wait),
            "model_class": type(self._definition.model).__name__,
            "repairs": [repair.name for repair in self._definition.repairs],
            "unused_weights": self._unused,
            "flops": operation.compiled.cost_analysis().get("flops"),  # per call, as XLA counts them
            "xla_compile_s": self._log.total_s,  # of all compilations, those while loading included
        }
        return Facts(effective, facts.versions(), details)

    def compilations(self) -> int:
        """Everything that XLA compiled, the few small programs that JAX needs while loading included."""
        return self._log.compilations

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - XLA's peaks cannot be reset
        """The weights, and what the program needs beside them, its outputs and its inputs."""
        analysis = self._operation.compiled.memory_analysis()
        return {
            **facts.allocator_counters(jax.devices()[0].memory_stats()),
            "weights_bytes": facts.weights_bytes(self._weights),
            "temporaries_bytes": analysis.temp_size_in_bytes,
        }

    def close(self) -> None:
        """Free weights, programs, inputs and outputs. A runner that failed before it had them is closed as well."""
        if hasattr(self, "_log"):
            self._log.close()
        if hasattr(self, "_operation"):
            self._operation.release()
        self.__dict__.clear()
        jax.clear_caches()
        gc.collect()

    def _warmth(self) -> str:
        """Warm: the program came from the cache. Stale: it did not, but others did."""
        if self._operation.was_cached:
            return "warm"
        return "stale" if self._log.cache_hits else "cold"

    def _values(self, slot: Arrays) -> Values:
        return {name: self._value(array) for name, array in slot.items()}

    def _value(self, array: npt.NDArray[Any]) -> jax.Array:
        """A copy on the device; floating inputs in the model's dtype, token ids in 32 bits, as JAX has them."""
        is_floating = jnp.issubdtype(array.dtype, jnp.floating)
        return jax.device_put(array.astype(jnp.dtype(self._job.dtype) if is_floating else np.int32))


class Forward:
    """One forward pass, compiled for the shape of its slots. Another shape is another operation."""

    calls_per_begin = None

    def __init__(
        self,
        function: Callable[[Weights, Values], Values],
        weights: Weights,
        slots: Sequence[Values],
        outputs: Sequence[str],
        items: Mapping[str, int],
        log: CompileLog,
    ) -> None:
        self._function = function
        self._weights = weights
        self._slots = slots
        self._outputs = outputs
        self._log = log
        self.items = items

    def compile(self) -> Stages:
        """Trace to JAX's language, lower to XLA's, compile."""
        hits_before = self._log.cache_hits
        watch = Stopwatch()
        self.traced = jax.jit(self._function).trace(self._weights, self._slots[0])
        watch.lap("trace")
        lowered = self.traced.lower()
        watch.lap("lower")
        self.compiled = lowered.compile()
        watch.lap("compile")
        self.was_cached = self._log.cache_hits > hits_before
        return watch.laps

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._inputs = self._slots[slot]

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed. Returns before the device is done; a shape not compiled for is a TypeError."""
        self._last = self.compiled(self._weights, self._inputs)

    def wait(self) -> None:
        """Until the device is done."""
        jax.block_until_ready(self._last)

    def call_and_wait(self) -> None:
        """A call that nobody times."""
        self.call()
        self.wait()

    def outputs(self) -> Arrays:
        """What of the last call is compared, a float32 copy on the host."""
        return {name: np.array(self._last[name], np.float32) for name in self._outputs}

    def release(self) -> None:
        """Let go of program, weights, inputs and outputs."""
        self.__dict__.clear()


def _set_up_device(job: Job) -> None:
    """Device and threads: JAX makes its clients here. Raises Unsupported for a device that is not there.

    XLA reads the size of its pool from NPROC, else from the processors that this process may use. XLA_FLAGS has nothing for it:
    `--xla_cpu_multi_thread_eigen=false` leaves the pool as it is.
    """
    os.environ["NPROC"] = str(job.threads)
    # Of a GPU's memory JAX would take three quarters at once, whatever the other workers of the block hold.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax.config.update("jax_platforms", PLATFORMS[job.device])
    if job.dtype == "float32":
        jax.config.update("jax_default_matmul_precision", "highest")  # on a GPU JAX would take TF32 for it
    if facts.kind(_first_device()) != job.device:
        raise Unsupported(f"device {job.device}: jaxlib {jaxlib.__version__} finds none here")


def _first_device() -> jax.Device | None:
    """Where everything goes. JAX raises for a platform that fails, but leaves out in silence one that it has no plugin for."""
    try:
        return jax.devices()[0]
    except RuntimeError:
        return None


def _forward_function(definition: Definition, names: Iterable[str]) -> Callable[[Weights, Values], Values]:
    """The model as a function of weights and inputs. Raises Unsupported for inputs that it does not take."""
    model = definition.model
    takes = inspect.signature(type(model).__call__).parameters
    if unknown := [name for name in names if name not in takes]:
        raise Unsupported(f"{type(model).__name__} takes no {' and no '.join(unknown)}")
    evaluation = {name: value for name, value in EVALUATION.items() if name in takes}

    def forward(weights: Weights, inputs: Values) -> Values:
        return dict(model(**inputs, params=definition.mended(weights), **evaluation))

    return forward
