"""The onnxruntime stack's backends as the host sees them: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness_pytorch.plugin import EAGER, is_run_as_encoder

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack, longest_sequence
from harness_onnxruntime.architectures import EXPORTABLE, OPTIMISABLE

DEVICES = ("cpu", "cuda")
CAUSAL_HEADS = ("ForCausalLM", "LMHeadModel")  # how classes of config.json's `architectures` end that have the head
HALF_PRECISION_LEVEL = "O4"

STACK = Stack(
    name="onnxruntime",
    lock="harness_onnxruntime:onnxruntime.lock",
    packages=("harness_onnxruntime", "harness_pytorch"),  # the latter's eager runs here too, as a control
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why this backend cannot run a cell, None where it can."""
    return next(_reasons(cell, model_config), None)


def _reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    if cell.task not in EXPORTABLE:
        yield f"task {cell.task}: this backend runs {' and '.join(EXPORTABLE)}"
    if cell.operation != "forward":
        yield f"operation {cell.operation}: this backend runs forward"
    if cell.dtype != "float32":
        yield f"dtype {cell.dtype}: this backend exports and runs float32"
    if cell.device not in DEVICES:
        yield f"device {cell.device}: this backend runs on {' and '.join(DEVICES)}"
    if cell.options.get("optimum_level") == HALF_PRECISION_LEVEL:
        yield "optimum_level O4: it makes a float16 graph, in silence also on CPU, and this backend runs float32"
    yield from _model_reasons(cell, model_config)


def _model_reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    architectures = model_config.get("architectures") or []
    if cell.task == "text-generation" and architectures and not any(a.endswith(CAUSAL_HEADS) for a in architectures):
        yield f"task text-generation: the checkpoint is of {', '.join(architectures)}, which has no language-model head"
    model_type = model_config.get("model_type")
    if model_type is not None and model_type not in EXPORTABLE.get(cell.task, ()):
        yield f"model type {model_type}: optimum's ONNX exporter does not have it for {cell.task}"
    if model_type is not None and cell.options.get("optimum_level") and model_type not in OPTIMISABLE:
        yield f"optimum_level {cell.options['optimum_level']}: optimum's optimiser does not have model type {model_type}"
    if model_config.get("is_encoder_decoder") and not is_run_as_encoder(cell, model_config):
        yield f"model type {model_type}: an encoder-decoder also needs decoder inputs, which are not made"
    limit = longest_sequence(model_config)
    if limit is not None and cell.sequence_length > limit:
        yield f"sequence_length {cell.sequence_length}: the model has positions for {limit} tokens"


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
