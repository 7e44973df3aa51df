"""For runners that compute by XLA through JAX. JAX is not imported here: whoever calls has it, and hands it over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from harness.worker.api import Arrays, Stages, Stopwatch
from harness.worker.processes import threads_called

POOL = "tf_XLAEigen"
"""What the threads are called among which XLA divides operations on CPU."""

COMPILED = "/jax/core/compile/backend_compile_duration"
"""Told for every program that XLA compiles or the persistent cache gives: ahead of time, for a jitted function that met a new
shape, or for a single operation."""


def set_threads(threads: int) -> None:
    """Before JAX makes its client: XLA reads the size of its pool from NPROC, else from the processors that this process may use.

    XLA_FLAGS has nothing for it: `--xla_cpu_multi_thread_eigen=false` leaves the pool as it is.
    """
    os.environ["NPROC"] = str(threads)


def pool_threads() -> int:
    """Of XLA's pool on CPU, counted by name in this process. A pool of one is not used: the caller does all the work."""
    return threads_called(POOL)


class Compilations:
    """Counts what XLA compiles, from its making to `close`; the few small programs that JAX needs while loading included."""

    def __init__(self, jax: ModuleType) -> None:
        self.count = 0
        self.total_s = 0.0
        self._monitoring = jax.monitoring
        self._monitoring.register_event_duration_secs_listener(self._told)

    def close(self) -> None:
        """Listen no more."""
        self._monitoring.unregister_event_duration_listener(self._told)

    def _told(self, event: str, duration_s: float, **_: Any) -> None:
        if event == COMPILED:
            self.count += 1
            self.total_s += duration_s


@dataclass(frozen=True)
class Ahead:
    """A function as JAX traced it and XLA compiled it. Calling it with another shape is a TypeError, never a compilation."""

    traced: Any  # jax.stages.Traced
    compiled: Any  # jax.stages.Compiled
    stages: Stages


def compile_ahead(
    jax: ModuleType, function: Callable[..., Any], *arguments: Any, donated: tuple[int, ...] = ()
) -> Ahead:
    """Trace to JAX's language, lower to XLA's, compile. Arguments are arrays or their shapes.

    The program may overwrite the arguments at the positions `donated`: they are of no use after a call.
    """
    watch = Stopwatch()
    traced = jax.jit(function, donate_argnums=donated).trace(*arguments)
    watch.lap("trace")
    lowered = traced.lower()
    watch.lap("lower")
    compiled = lowered.compile()
    watch.lap("compile")
    return Ahead(traced, compiled, watch.laps)


def on_device(jax: ModuleType, arrays: Arrays, dtype: str) -> dict[str, Any]:
    """Copies on the device, perhaps still on their way; floating ones in a dtype, all others in 32 bits, as JAX has token ids."""
    floating = jax.numpy.dtype(dtype)
    kinds = {name: floating if np.issubdtype(array.dtype, np.floating) else np.int32 for name, array in arrays.items()}
    return {name: jax.device_put(array.astype(kinds[name])) for name, array in arrays.items()}


def dtype(arrays: Iterable[Any]) -> str:
    """That of all floating arrays; several are joined by "+"."""
    return "+".join(sorted({array.dtype.name for array in arrays if "float" in array.dtype.name}))


def nbytes(arrays: Iterable[Any]) -> int:
    """Of all of them."""
    return sum(array.nbytes for array in arrays)
