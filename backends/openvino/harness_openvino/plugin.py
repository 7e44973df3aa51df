"""The OpenVINO backend as the host sees it: data. Imports no framework."""

from __future__ import annotations

from harness.hookspecs import hookimpl
from harness.model import Backend, Option, Stack
from harness.tasks import ENCODER_TASKS

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
    tasks=ENCODER_TASKS,
    runs_encoder_decoders=False,
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (OPENVINO,)
