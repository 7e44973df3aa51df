"""JAX's persistent compilation cache, and what JAX says about its compilations (`jax.monitoring`)."""

from __future__ import annotations

from typing import Any

import jax
from jax import monitoring

from harness.worker.api import Job

COMPILED = "/jax/core/compile/backend_compile_duration"
"""Told for every program that XLA compiles or the persistent cache gives: ahead of time, for a jitted function that met a new
shape, or for a single operation."""

CACHE_HIT = "/jax/compilation_cache/cache_hits"
"""Told where the persistent cache gives the program."""


def set_up_cache(job: Job) -> None:
    """Cold: off. Warm: every program is kept in `job.cache` and taken from there, however small and quickly compiled it was."""
    is_warm = job.compile_cache == "warm"
    jax.config.update("jax_enable_compilation_cache", is_warm)
    jax.config.update("jax_compilation_cache_dir", job.cache if is_warm else None)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # XLA's own caches (for GPUs) would bring the folder's path into the key: a copy of the folder would then be of no use.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


class CompileLog:
    """Listens to JAX from its making to `close`."""

    def __init__(self) -> None:
        self.compilations = 0
        self.cache_hits = 0
        self.total_s = 0.0
        monitoring.register_event_duration_secs_listener(self._told_duration)
        monitoring.register_event_listener(self._told)

    def close(self) -> None:
        """Listen no more."""
        monitoring.unregister_event_duration_listener(self._told_duration)
        monitoring.unregister_event_listener(self._told)

    def _told_duration(self, event: str, duration_s: float, **_: Any) -> None:
        if event == COMPILED:
            self.compilations += 1
            self.total_s += duration_s

    def _told(self, event: str, **_: Any) -> None:
        self.cache_hits += event == CACHE_HIT
