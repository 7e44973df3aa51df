"""The Flax backend as the host sees it: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Stack, longest_sequence
from harness_flax.architectures import ENCODERS, MODEL_TYPES, differences

DTYPES = ("float32", "bfloat16")
DEVICES = ("cpu",)  # the lock has jaxlib's CPU build
CAUSAL_HEADS = ("ForCausalLM", "LMHeadModel")  # how classes of config.json's `architectures` end that have the head

STACK = Stack(name="flax", lock="harness_flax:flax.lock", packages=("harness_flax",))


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why this backend cannot run a cell, None where it can."""
    return next(_reasons(cell, model_config), None)


def _reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    if cell.task not in MODEL_TYPES:
        yield f"task {cell.task}: this backend runs {' and '.join(MODEL_TYPES)}"
    if cell.operation != "forward":
        yield f"operation {cell.operation}: this backend runs forward"
    if cell.dtype not in DTYPES:
        yield f"dtype {cell.dtype}: this backend runs {' and '.join(DTYPES)}"
    if cell.device not in DEVICES:
        yield f"device {cell.device}: this backend runs on {' and '.join(DEVICES)}"
    yield from _model_reasons(cell, model_config)


def _model_reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    architectures = model_config.get("architectures") or []
    if cell.task == "text-generation" and architectures and not any(a.endswith(CAUSAL_HEADS) for a in architectures):
        yield f"task text-generation: the checkpoint is of {', '.join(architectures)}, which has no language-model head"
    model_type = model_config.get("model_type")
    if model_type is not None and model_type not in MODEL_TYPES.get(cell.task, ()):
        yield f"model type {model_type}: Transformers has no Flax class for it and {cell.task}"
    is_run_as_encoder = cell.task == "feature-extraction" and model_type in ENCODERS
    if model_config.get("is_encoder_decoder") and not is_run_as_encoder:
        yield f"model type {model_type}: an encoder-decoder also needs decoder inputs, which are not made"
    limit = longest_sequence(model_config)
    if limit is not None and cell.sequence_length > limit:
        yield f"sequence_length {cell.sequence_length}: the model has positions for {limit} tokens"
    yield from differences(model_config)


FLAX = Backend(
    name="flax",
    stack=STACK,
    runner="harness_flax.runner:FlaxRunner",
    description="Flax: compiled ahead of time by XLA, one program for the shape of the inputs",
    supports=supports,
    has_compile_cache=True,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (FLAX,)
