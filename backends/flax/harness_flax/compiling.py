"""JAX's persistent compilation cache, and what JAX says about its compilations (`jax.monitoring`)."""

from __future__ import annotations

from typing import Any

import jax
from jax import monitoring

from harness.worker.api import Job
from harness.worker.xla import Compilations

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


class CompileLog(Compilations):
    """What the persistent cache gives is counted as well."""

    def __init__(self) -> None:
        super().__init__(jax)
        self.cache_hits = 0
        monitoring.register_event_listener(self._told_hit)

    def close(self) -> None:
        """Listen no more."""
        super().close()
        monitoring.unregister_event_listener(self._told_hit)

    def _told_hit(self, event: str, **_: Any) -> None:
        self.cache_hits += event == CACHE_HIT
