"""The Flax backend as the host sees it: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Stack
from harness.tasks import GENERATION
from harness_flax.architectures import CACHE_FAULTS, ENCODERS, MODEL_TYPES, differences

DTYPES = dict.fromkeys(("cpu", "cuda"), ("float32", "bfloat16", "float16"))

STACK = Stack(
    name="flax",
    lock="harness_flax:flax.lock",
    packages=("harness_flax",),
    device_locks={"cuda": "harness_flax:flax-cuda.lock"},
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Why this backend cannot run a cell, None where it can."""
    return next(_reasons(cell, model_config), None)


def _reasons(cell: Cell, model_config: Mapping[str, Any]) -> Iterator[str]:
    model_type = model_config.get("model_type")
    if model_type is not None and model_type not in MODEL_TYPES[cell.task]:
        yield f"model type {model_type}: Transformers has no Flax class for it and {cell.task}"
    if cell.task == "feature-extraction" and model_config.get("is_encoder_decoder") and model_type not in ENCODERS:
        yield f"task feature-extraction: Transformers has no Flax class for the encoder of model type {model_type}"
    if cell.operation in GENERATION and cell.task == "text-generation" and model_type in CACHE_FAULTS:
        yield f"operation {cell.operation}: the Flax code of {model_type} {CACHE_FAULTS[model_type]}"
    if cell.stop_at_eos and cell.num_beams > 1:
        yield (
            f"num_beams {cell.num_beams} with stop_at_eos: where one beam has met end-of-text, Flax's search weighs none against "
            "it that comes to new_tokens without; PyTorch's does, and finds other texts"
        )
    yield from differences(model_config)


FLAX = Backend(
    name="flax",
    stack=STACK,
    runner="harness_flax.runner:FlaxRunner",
    description="Flax: compiled ahead of time by XLA, one program for the shape of the inputs",
    tasks=tuple(MODEL_TYPES),
    operations=("forward", *GENERATION, "application"),
    dtypes=DTYPES,
    supports=supports,
    has_compile_cache=True,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (FLAX,)
