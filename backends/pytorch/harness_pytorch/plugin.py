"""The PyTorch backends as the host sees them: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack
from harness.tasks import GENERATION
from harness_pytorch.architectures import ENCODERS, WITHOUT_LINEAR, WITHOUT_SDPA

DTYPES = dict.fromkeys(("cpu", "cuda"), ("float32", "bfloat16", "float16"))
NO_TEXT = {"num_channels", "conv_dim", "num_mel_bins"}
"""Keys of configs of models that look or listen: much of what they do is convolutions."""

WITH_INT8 = {**DTYPES, "cpu": (*DTYPES["cpu"], "int8")}
CUDA_GRAPH_MODES = ("reduce-overhead",)
OPERATIONS = ("forward", *GENERATION, "application")

STACK = Stack(
    name="pytorch",
    lock="harness_pytorch:pytorch.lock",
    packages=("harness_pytorch",),
    checkpoint_maker="harness_pytorch.make_checkpoint",
    device_locks={"cuda": "harness_pytorch:pytorch-cuda.lock"},
)

MATMUL_PRECISION = Option(
    "matmul_precision",
    str,
    default=None,
    choices=("highest", "high", "medium"),
    help="what float32 matrix products may be computed in (torch.set_float32_matmul_precision); PyTorch: highest",
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why the pytorch stack cannot run a cell, None where it can."""
    model_type = model_config.get("model_type")
    if cell.task == "feature-extraction" and model_config.get("is_encoder_decoder") and model_type not in ENCODERS:
        return f"task feature-extraction: Transformers has no class for the encoder of model type {model_type}"
    return None


def supports_eager(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """As `supports`, for what may be quantised."""
    reason = _unquantised(cell, model_config) if cell.dtype == "int8" else None
    return reason or supports(cell, model_config)


def _unquantised(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why quantising its linear layers would not do."""
    model_type, operation = model_config.get("model_type"), cell.operation
    if model_type in WITHOUT_LINEAR:
        return f"dtype int8: model type {model_type} has layers Conv1D in place of Linear, which PyTorch leaves as they are"
    if NO_TEXT & model_config.keys():
        return "dtype int8: it is for models of text, as PyTorch quantises linear layers and no convolutions"
    if operation in GENERATION:
        return (
            f"dtype int8: {operation} would soon make other tokens than in float32; it is for forward and application"
        )
    return None


def supports_sdpa(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """As `supports_eager`, where attention must be scaled_dot_product_attention's."""
    model_type = model_config.get("model_type")
    if model_type in WITHOUT_SDPA:
        return f"model type {model_type}: Transformers has no attention by scaled_dot_product_attention for it"
    return supports_eager(cell, model_config)


def supports_compiled(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """As `supports_sdpa`, for torch.compile."""
    if cell.options.get("mode") in CUDA_GRAPH_MODES and cell.device != "cuda":
        return f"mode {cell.options['mode']} stands for CUDA graphs, which device {cell.device} does not have"
    return _uncompiled(cell) or supports_sdpa(cell, model_config)


def _uncompiled(cell: Cell) -> str | None:
    """Why Transformers' generate would compile nothing."""
    if cell.operation == "generate" and cell.num_beams > 1:
        return f"num_beams {cell.num_beams}: Transformers' beam search runs the model uncompiled"
    if cell.operation == "generate" and cell.new_tokens == 1:
        return "new_tokens 1: Transformers' generate compiles the steps after the first token, and there is none"
    return None


EAGER = Backend(
    name="eager",
    stack=STACK,
    runner="harness_pytorch.runner:EagerRunner",
    description="PyTorch operator by operator, attention written out: the plainest path, and the reference",
    options=(MATMUL_PRECISION,),
    operations=OPERATIONS,
    dtypes=WITH_INT8,
    expects={"attn_implementation": "eager", "sdpa_called": False},
    supports=supports_eager,
)

SDPA = Backend(
    name="sdpa",
    stack=STACK,
    runner="harness_pytorch.runner:SdpaRunner",
    description="PyTorch operator by operator, attention by scaled_dot_product_attention: Transformers' default",
    options=(MATMUL_PRECISION,),
    operations=OPERATIONS,
    dtypes=WITH_INT8,
    expects={"attn_implementation": "sdpa", "sdpa_called": True},
    supports=supports_sdpa,
)

COMPILE = Backend(
    name="compile",
    stack=STACK,
    runner="harness_pytorch.compiling:CompileRunner",
    description="torch.compile with Inductor, on top of sdpa",
    options=(
        Option(
            "mode",
            str,
            default=None,
            choices=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
            help="what Inductor spends compile time on; PyTorch: default",
        ),
        Option(
            "dynamic",
            bool,
            default=None,
            help="true: kernels for any shape; false: for the shapes met; PyTorch: the latter until a shape changes",
        ),
        Option("fullgraph", bool, default=None, help="true: a graph break is an error; PyTorch: false"),
        MATMUL_PRECISION,
    ),
    operations=OPERATIONS,
    dtypes=DTYPES,
    expects={"attn_implementation": "sdpa", "compiled": True},
    supports=supports_compiled,
    has_compile_cache=True,
    system_packages=("g++", "libpython3-dev"),  # Inductor builds C++ that includes Python.h
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """Eager, sdpa and compile: one stack, so that they differ in nothing else."""
    return EAGER, SDPA, COMPILE
