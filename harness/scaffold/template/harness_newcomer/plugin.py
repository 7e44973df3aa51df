"""The backend as the host sees it: data and reasons. Import no framework here; the host has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack

STACK = Stack(
    name="newcomer",
    lock="harness_newcomer:newcomer.lock",  # package:file; what the environment or image is made of
    packages=("harness_newcomer",),  # copied beside the worker: all that the runner imports of your own
)

# Each is an axis that a matrix may vary under the backend's name, and part of what a result is found by. None as
# default leaves the choice to the framework. Whatever is declared here, the runner reads back in facts().
OPTIONS = (
    Option("transposed", bool, True, "weights laid out as the products read them; false: as the checkpoint has them"),
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - asked for every cell alike
    """Why the backend cannot run a cell, None where it can: judged from the model's config.json before anything starts.

    `model_config` is empty where it is not known yet: no reason against anything. What is declared below (tasks,
    operations, dtypes, devices, model types), and what any backend needs of a model, the harness has checked already:
    where that says it all, leave `supports` out.
    """
    activation = model_config.get("hidden_act", "gelu")
    return None if activation == "gelu" else f"activation {activation}: newcomer knows gelu alone"


NEWCOMER = Backend(
    name="newcomer",
    stack=STACK,
    runner="harness_newcomer.runner:NewcomerRunner",  # as text: it is imported where the stack is, not here
    description="BERT in numpy: slow, right, and a place to begin",
    options=OPTIONS,
    tasks=("feature-extraction",),
    operations=("forward",),
    dtypes={"cpu": ("float32",)},
    model_types=("bert",),  # of config.json; left out: any. runs_encoder_decoders=False leaves those out
    supports=supports,
    by_default=False,  # True, once a matrix that names no backend should have it too
    runner_version=1,  # of harness.worker.api, as you read it when you wrote the runner
)


@hookimpl
def harness_register_backends() -> Iterable[Backend]:
    """One backend; several that share a stack may come from one plugin."""
    return (NEWCOMER,)
