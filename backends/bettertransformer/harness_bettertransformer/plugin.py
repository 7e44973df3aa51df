"""The BetterTransformer backend as the host sees it: data and reasons. Imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Stack

ENCODERS = frozenset({"albert", "bert", "camembert", "deit", "distilbert", "electra", "roberta", "vit", "xlm-roberta"})
"""Model types whose layers optimum replaces by PyTorch's fused one. It has more: for inputs that are not made here, and decoders,
of which it replaces the attention alone, by scaled_dot_product_attention, which the backend sdpa measures."""


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - called by keyword
    """Why this backend cannot run a cell, None where it can."""
    model_type = model_config.get("model_type")
    if model_type is not None and model_type not in ENCODERS:
        return f"model type {model_type}: BetterTransformer has no fused layer for it"
    return None


BETTERTRANSFORMER = Backend(
    name="bettertransformer",
    stack=Stack(
        "bettertransformer",
        lock="harness_bettertransformer:bettertransformer.lock",
        packages=("harness_bettertransformer",),
    ),
    runner="harness_bettertransformer.runner:BetterTransformerRunner",
    description="BetterTransformer of optimum 1.27: encoder layers replaced by PyTorch's fused one; given up by optimum since",
    tasks=(
        "feature-extraction",
        "text-classification",
        "token-classification",
        "fill-mask",
        "question-answering",
        "image-classification",
    ),
    expects={"transformed": True, "fused_layer_called": True},
    supports=supports,
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (BETTERTRANSFORMER,)
