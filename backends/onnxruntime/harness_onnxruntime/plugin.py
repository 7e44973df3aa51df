"""The onnxruntime stack's backends as the host sees them: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness_pytorch.plugin import EAGER, NO_TEXT
from harness_pytorch.plugin import supports as supports_pytorch

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack
from harness.tasks import GENERATION
from harness_onnxruntime.architectures import EXPORTABLE, GENERATES_BY_HEAD_DIM, OPTIMISABLE

HALF_PRECISION_LEVEL = "O4"

STACK = Stack(
    name="onnxruntime",
    lock="harness_onnxruntime:onnxruntime.lock",
    packages=("harness_onnxruntime", "harness_pytorch"),  # the latter's eager runs here too, as a control
    device_locks={"cuda": "harness_onnxruntime:onnxruntime-cuda.lock"},
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why this backend cannot run a cell, None where it can."""
    return next(_reasons(cell, model_config), None)


def _reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    level, model_type = cell.options.get("optimum_level"), model_config.get("model_type")
    if level == HALF_PRECISION_LEVEL:
        yield "optimum_level O4: it makes a float16 graph, in silence also on CPU, and this backend runs float32"
    if model_type is not None and model_type not in EXPORTABLE[cell.task]:
        yield f"model type {model_type}: optimum's ONNX exporter does not have it for {cell.task}"
    if cell.operation == "generate":
        yield from _generate_reasons(model_config)
    if cell.dtype == "int8":
        yield from _quantising_reasons(cell, model_config)
    if model_type is not None and level and model_type not in OPTIMISABLE:
        yield f"optimum_level {level}: optimum's optimiser does not have model type {model_type}"
    if reason := supports_pytorch(cell, model_config):  # the exporter loads the model with the same classes
        yield reason


def _quantising_reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    if cell.operation in GENERATION:
        yield f"dtype int8: {cell.operation} would soon make other tokens than in float32; it is for forward and application"
    if cell.options.get("optimum_level"):
        yield "dtype int8: it is made of the graph as exported; leave optimum_level null"
    if NO_TEXT & model_config.keys():
        yield "dtype int8: it is for models of text, as products with weights are quantised and no convolutions"


def _generate_reasons(model_config: Mapping[str, Any]) -> Iterator[str]:
    width, hidden, heads = (model_config.get(name) for name in ("head_dim", "hidden_size", "num_attention_heads"))
    is_read = model_config.get("model_type") in GENERATES_BY_HEAD_DIM
    if width and hidden and heads and width != hidden // heads and not is_read:
        yield (
            f"operation generate: optimum takes heads to be {hidden // heads} wide (hidden_size / num_attention_heads), "
            f"this model's are {width}; prefill and decode run it"
        )


ONNXRUNTIME = Backend(
    name="onnxruntime",
    stack=STACK,
    runner="harness_onnxruntime.runner:OnnxRuntimeRunner",
    description="ONNX Runtime: exported by optimum, run by an inference session with bound inputs and outputs",
    options=(
        Option(
            "graph_optimization",
            str,
            default=None,
            choices=("disabled", "basic", "extended", "all"),
            help="what the session does to the graph while it is created; ONNX Runtime: all",
        ),
        Option(
            "optimum_level",
            str,
            default=None,
            choices=("O1", "O2", "O3", HALF_PRECISION_LEVEL),
            help="optimise the exported file first, by optimum: O1 basic, O2 fused layers, O3 approximate GELU too",
        ),
    ),
    tasks=tuple(EXPORTABLE),
    operations=("forward", *GENERATION, "application"),
    dtypes={"cpu": ("float32", "int8"), "cuda": ("float32",)},
    supports=supports,
    has_compile_cache=True,
)

EAGER_HERE = replace(
    EAGER,
    name="eager_onnxruntime_stack",
    stack=STACK,
    description="Eager under the other generation of Transformers: a control, to see what that alone changes",
    by_default=False,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend, whose options are what users vary, and the control."""
    return ONNXRUNTIME, EAGER_HERE
