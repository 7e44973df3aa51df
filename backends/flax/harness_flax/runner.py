"""Flax: a Transformers model as JAX traces it and XLA compiles it, ahead of time, for the shape of its inputs.

Calls are asynchronous and run one after the other, so waiting for the last one is waiting for all.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence

import jax
import jaxlib

from harness.worker import xla
from harness.worker.api import Arrays, Counters, Facts, Job, Stages, Stopwatch, Unsupported
from harness_flax import facts
from harness_flax.compiling import CompileLog, set_up_cache
from harness_flax.forward import Forward
from harness_flax.generation import Decode, Generate, Prefill
from harness_flax.loading import define, read_weights
from harness_flax.programs import Loaded, OneProgram
from harness_flax.repairs import REPAIRS, Repair

PLATFORMS = {"cpu": "cpu", "cuda": "cuda,cpu"}
"""What JAX calls the device kinds. The first is where everything goes."""

OPERATIONS: Mapping[str, Callable[[Loaded, Sequence[Arrays]], OneProgram]] = {
    "forward": Forward,
    "prefill": Prefill,
    "decode": Decode,
    "generate": Generate,
}
"""By name."""


class FlaxRunner:
    """One model in Flax."""

    not_applicable: Mapping[str, str] = {"prepare": "Flax runs the checkpoint as it is"}

    def __init__(self, repairs: Sequence[Repair] = REPAIRS) -> None:
        """The worker gives no arguments. A test that leaves a repair out sees what it is for."""
        self._repairs = repairs

    def load(self, job: Job) -> Stages:
        """Make JAX's client, define the model, then read its weights, in Flax's layouts, onto the device."""
        watch = Stopwatch()
        set_up_cache(job)
        self._log = CompileLog()
        _set_up_device(job)
        watch.lap("client")
        definition = define(job, self._repairs)
        watch.lap("define")
        weights, self._unused = read_weights(definition, job)
        watch.lap("weights")
        self._loaded = Loaded(job, definition, weights, self._log)
        return watch.laps

    def prepare(self) -> Stages:
        """Nothing."""
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> OneProgram:
        """Raises Unsupported for an operation that is not among `OPERATIONS`, and for inputs that the model does not take."""
        if name not in OPERATIONS:
            raise Unsupported(f"operation {name}: flax runs {', '.join(OPERATIONS)}")
        self._operation = OPERATIONS[name](self._loaded, slots)
        return self._operation

    def facts(self) -> Facts:
        """A few more calls are made, to see how many cores they use."""
        operation, weights, definition = self._operation, self._loaded.weights, self._loaded.definition
        compiled = operation.program.compiled
        effective = {
            "device": facts.device(weights),
            "dtype": xla.dtype(jax.tree.leaves(weights)),
            "threads": xla.pool_threads(),
            "eval_mode": not facts.draws_random_numbers(operation.evaluated),
            "inference_mode": isinstance(compiled, jax.stages.Compiled),  # which JAX refuses to differentiate
            "compile_cache": self._warmth(),
        }
        details = {
            **facts.platform(),
            "cores_used": facts.cores_used(operation.call_and_wait),
            "model_class": type(definition.model).__name__,
            "repairs": [repair.name for repair in definition.repairs],
            "unused_weights": self._unused,
            "flops": compiled.cost_analysis().get("flops"),  # per call, as XLA counts them
            "xla_compile_s": self._log.total_s,  # of all compilations, those while loading included
        }
        return Facts(effective, facts.versions(), details)

    def compilations(self) -> int:
        """Everything that XLA compiled, the few small programs that JAX needs while loading included."""
        return self._log.count

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - XLA's peaks cannot be reset
        """The weights, the cache of keys and values, and what the program needs beside them, its outputs and its inputs."""
        analysis = self._operation.program.compiled.memory_analysis()
        return {
            **facts.allocator_counters(jax.devices()[0].memory_stats()),
            # What a repair makes of them inside the program does not count.
            "weights_bytes": xla.nbytes(jax.tree.leaves(self._loaded.weights)),
            **self._operation.counters(),
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


def _set_up_device(job: Job) -> None:
    """Device and threads: JAX makes its clients here. Raises Unsupported for a device that is not there."""
    xla.set_threads(job.threads)
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
