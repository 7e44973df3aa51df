"""The torchax backend as the host sees it: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Stack


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - called by keyword
    """Why this backend cannot run a cell, None where it can, as far as that is known before XLA traces the model."""
    if model_config.get("is_encoder_decoder"):
        return f"model type {model_config.get('model_type')}: torchax runs no encoder-decoders here"
    return None


TORCHAX = Backend(
    name="torchax",
    stack=Stack("torchax", lock="harness_torchax:torchax.lock", packages=("harness_torchax",)),
    runner="harness_torchax.runner:TorchaxRunner",
    description="torchax: PyTorch's own model traced by JAX and compiled ahead of time by XLA, also where Flax has no class for it",
    tasks=(
        "feature-extraction",
        "text-classification",
        "token-classification",
        "fill-mask",
        "question-answering",
        "text-generation",
        "image-classification",
    ),
    supports=supports,
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (TORCHAX,)
