"""What is really in effect in JAX and XLA, read back from the framework, the program and the process."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jaxlib.version
from jax.interpreters import partial_eval

from harness.worker.api import Counters, cpu_counters, describe_build, versions_of

DISTRIBUTIONS = ("jax", "jaxlib", "flax", "transformers", "tokenizers", "safetensors", "huggingface_hub", "numpy")

RANDOM = re.compile(r"\b(random_\w+|threefry2x32|rng_\w+)\b")
"""Primitives that draw random numbers: dropout does, where it is on."""

CORES_USED_NS = 100_000_000  # how long calls are watched, at least


def versions() -> dict[str, str]:
    """Of the distributions that can change a number."""
    return versions_of(DISTRIBUTIONS)


def device(weights: Any) -> str:
    """The kind of device that all weights are on; several are joined by "+"."""
    return "+".join(sorted({str(kind(each)) for leaf in jax.tree.leaves(weights) for each in leaf.devices()}))


def kind(device: jax.Device | None) -> str | None:
    """The kind of device in our words. JAX calls GPUs of all makers "gpu"; whose it is, the client knows."""
    if device is None:
        return None
    is_cuda = device.platform == "gpu" and "cuda" in device.client.platform_version.lower()
    return "cuda" if is_cuda else device.platform


def allocator_counters(stats: Mapping[str, int] | None) -> Counters:
    """What the device's allocator tells of itself (`Device.memory_stats`; None on CPU, where it counts nothing).

    Its peaks are those since it was made, so they count under names of their own: they are no peaks of the memory pass.
    """
    if stats is None:
        return cpu_counters("XLA's allocator counts nothing on this device")
    return {
        "allocated_bytes": stats["bytes_in_use"],
        "peak_allocated_bytes": "XLA's peak cannot be reset: see peak_allocated_since_start_bytes",
        "peak_allocated_since_start_bytes": stats["peak_bytes_in_use"],
        "peak_reserved_bytes": "XLA's peak cannot be reset",
        "device_context_bytes": "XLA makes the context and takes its pool in one",
    }


def draws_random_numbers(traced: jax.stages.Traced) -> bool:
    """Whether the program does, as it would in training mode.

    What is computed for nothing does not count, for it is not compiled: Flax makes an empty cache with random weights beside it.
    """
    used, _ = partial_eval.dce_jaxpr(traced.jaxpr.jaxpr, used_outputs=True)
    return RANDOM.search(str(used)) is not None


def cores_used(call: Callable[[], None]) -> float:
    """Processor time over time that passes, of calls made back to back: more than `threads` would be a broken promise."""
    started_ns, processor_ns = time.perf_counter_ns(), time.process_time_ns()
    while (elapsed_ns := time.perf_counter_ns() - started_ns) < CORES_USED_NS:
        call()
    return round((time.process_time_ns() - processor_ns) / elapsed_ns, 2)


def platform() -> dict[str, Any]:
    """How JAX and XLA are set up."""
    first = jax.devices()[0]
    return {
        "build": describe_build("jaxlib does not say", cuda=_cuda(first), commit=jaxlib.version._git_hash),
        "platform": first.client.platform,
        "platform_version": first.client.platform_version,
        "devices": [str(each) for each in jax.devices()],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "default_matmul_precision": jax.config.jax_default_matmul_precision,
        "enable_x64": jax.config.jax_enable_x64,
        "persistent_cache_enabled": jax.config.jax_enable_compilation_cache,
        "persistent_cache_folder": jax.config.jax_compilation_cache_dir,
    }


def _cuda(device: jax.Device) -> str | None:
    """The CUDA that the client was built for, as it says: "cuda 12090" is 12090."""
    found = re.search(r"cuda (\d+)", device.client.platform_version)
    return found and found[1]
