"""The OpenVINO backend as the host sees it: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - called by keyword
    """Why this backend cannot run a cell, None where it can, as far as that is known before the model is converted."""
    if model_config.get("is_encoder_decoder"):
        return f"model type {model_config.get('model_type')}: openvino runs no encoder-decoders here"
    return None


OPENVINO = Backend(
    name="openvino",
    stack=Stack("openvino", lock="harness_openvino:openvino.lock", packages=("harness_openvino",)),
    runner="harness_openvino.runner:OpenVinoRunner",
    description="OpenVINO: converted from PyTorch in a process of its own, compiled for the CPU and the shape of the inputs",
    options=(
        Option(
            "inference_precision",
            str,
            default=None,
            choices=("f32", "bf16", "f16"),
            help="what the CPU computes in (INFERENCE_PRECISION_HINT); left out: f32, and not what OpenVINO would choose",
        ),
        Option(
            "performance_hint",
            str,
            default=None,
            choices=("latency", "throughput"),
            help="throughput: the threads are divided among requests that run side by side; OpenVINO: latency",
        ),
    ),
    tasks=(
        "feature-extraction",
        "text-classification",
        "token-classification",
        "fill-mask",
        "question-answering",
        "image-classification",
    ),
    supports=supports,
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (OPENVINO,)
