"""The PyTorch backends as the host sees them: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack, longest_sequence
from harness_pytorch.architectures import ENCODERS, WITHOUT_SDPA

TASKS = ("feature-extraction", "text-generation")
DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("cpu", "cuda")
CAUSAL_HEADS = ("ForCausalLM", "LMHeadModel")  # how classes of config.json's `architectures` end that have the head
CUDA_GRAPH_MODES = ("reduce-overhead",)

STACK = Stack(
    name="pytorch",
    lock="harness_pytorch:pytorch.lock",
    packages=("harness_pytorch",),
    checkpoint_maker="harness_pytorch.make_checkpoint",
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
    return next(_reasons(cell, model_config), None)


def supports_sdpa(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """As `supports`, where attention must be scaled_dot_product_attention's."""
    model_type = model_config.get("model_type")
    if model_type in WITHOUT_SDPA:
        return f"model type {model_type}: Transformers has no attention by scaled_dot_product_attention for it"
    return supports(cell, model_config)


def supports_compiled(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """As `supports_sdpa`, for torch.compile."""
    if cell.options.get("mode") in CUDA_GRAPH_MODES and cell.device != "cuda":
        return f"mode {cell.options['mode']} stands for CUDA graphs, which device {cell.device} does not have"
    return supports_sdpa(cell, model_config)


def _reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    if cell.task not in TASKS:
        yield f"task {cell.task}: this backend runs {' and '.join(TASKS)}"
    if cell.operation != "forward":
        yield f"operation {cell.operation}: this backend runs forward"
    if cell.dtype not in DTYPES:
        yield f"dtype {cell.dtype}: this backend runs {', '.join(DTYPES)}"
    if cell.device not in DEVICES:
        yield f"device {cell.device}: this backend runs on {' and '.join(DEVICES)}"
    yield from _model_reasons(cell, model_config)


def _model_reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    limit = longest_sequence(model_config)
    if limit is not None and cell.sequence_length > limit:
        yield f"sequence_length {cell.sequence_length}: the model has positions for {limit} tokens"
    if model_config.get("is_encoder_decoder") and not is_run_as_encoder(cell, model_config):
        yield f"model type {model_config.get('model_type')}: an encoder-decoder also needs decoder inputs, which are not made"
    architectures = model_config.get("architectures") or []
    if cell.task == "text-generation" and architectures and not any(a.endswith(CAUSAL_HEADS) for a in architectures):
        yield f"task text-generation: the checkpoint is of {', '.join(architectures)}, which has no language-model head"


def is_run_as_encoder(cell: Cell, model_config: Mapping[str, Any]) -> bool:
    """Whether it is an encoder-decoder of which only the encoder runs."""
    return cell.task == "feature-extraction" and model_config.get("model_type") in ENCODERS


EAGER = Backend(
    name="eager",
    stack=STACK,
    runner="harness_pytorch.runner:EagerRunner",
    description="PyTorch operator by operator, attention written out: the plainest path, and the reference",
    options=(MATMUL_PRECISION,),
    expects={"attn_implementation": "eager", "sdpa_called": False},
    supports=supports,
)

SDPA = Backend(
    name="sdpa",
    stack=STACK,
    runner="harness_pytorch.runner:SdpaRunner",
    description="PyTorch operator by operator, attention by scaled_dot_product_attention: Transformers' default",
    options=(MATMUL_PRECISION,),
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
    expects={"attn_implementation": "sdpa", "compiled": True},
    supports=supports_compiled,
    has_compile_cache=True,
    system_packages=("g++", "libpython3-dev"),  # Inductor builds C++ that includes Python.h
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """Eager, sdpa and compile: one stack, so that they differ in nothing else."""
    return EAGER, SDPA, COMPILE
