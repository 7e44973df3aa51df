"""The torchax backend as the host sees it: data. Imports no framework."""

from __future__ import annotations

from harness.hookspecs import hookimpl
from harness.model import Backend, Stack
from harness.tasks import ENCODER_TASKS

TORCHAX = Backend(
    name="torchax",
    stack=Stack("torchax", lock="harness_torchax:torchax.lock", packages=("harness_torchax",)),
    runner="harness_torchax.runner:TorchaxRunner",
    description="torchax: PyTorch's own model traced by JAX and compiled ahead of time by XLA, also where Flax has no class for it",
    tasks=(*ENCODER_TASKS, "text-generation"),
    runs_encoder_decoders=False,
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (TORCHAX,)
