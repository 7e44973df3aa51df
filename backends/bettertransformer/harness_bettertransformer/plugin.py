"""The BetterTransformer backend as the host sees it: data. Imports no framework."""

from __future__ import annotations

from harness.hookspecs import hookimpl
from harness.model import Backend, Stack
from harness.tasks import ENCODER_TASKS

ENCODERS = ("albert", "bert", "camembert", "deit", "distilbert", "electra", "roberta", "vit", "xlm-roberta")
"""Model types whose layers optimum replaces by PyTorch's fused one. It has more: for inputs that are not made here, and decoders,
of which it replaces the attention alone, by scaled_dot_product_attention, which the backend sdpa measures."""

BETTERTRANSFORMER = Backend(
    name="bettertransformer",
    stack=Stack(
        "bettertransformer",
        lock="harness_bettertransformer:bettertransformer.lock",
        packages=("harness_bettertransformer",),
    ),
    runner="harness_bettertransformer.runner:BetterTransformerRunner",
    description="BetterTransformer of optimum 1.27: encoder layers replaced by PyTorch's fused one; given up by optimum since",
    tasks=ENCODER_TASKS,
    model_types=ENCODERS,
    expects={"transformed": True, "fused_layer_called": True},
    runner_version=1,
)


@hookimpl
def harness_register_backends() -> tuple[Backend, ...]:
    """One backend."""
    return (BETTERTRANSFORMER,)
