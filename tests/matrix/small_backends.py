"""Backends and models made of data, for matrices of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.model import Backend, HarnessError, Option, Stack

STACK = Stack(name="small", lock="small:small.lock", packages=("small",))
MODELS = {
    "package:minilm": "package:minilm==1.0",
    "package:minilm==1.0": "package:minilm==1.0",
    "random:bert": "random:bert?seed=0",
}


def backend(name: str, *options: Option, **fields: Any) -> Backend:
    return Backend(name=name, stack=STACK, runner="small.runner:Runner", description="", options=options, **fields)


EAGER = backend("eager")
CONTROL = backend("control", by_default=False)
ORT = backend(
    "onnxruntime",
    Option("optimization", str, None, "graph optimisation", ("O1", "O2", "O3")),
    Option("level", int, 2, "a number"),
    Option("scale", float, 1.0, "a fraction"),
    Option("fold", bool, True, "a switch"),
)


@dataclass(frozen=True)
class SmallIdentity:
    identity: str
    config: Mapping[str, Any] = field(default_factory=dict)


def identify(source: str) -> SmallIdentity:
    if source not in MODELS:
        raise HarnessError(f"no model {source!r} here")
    return SmallIdentity(MODELS[source], {"model_type": "bert", "vocab_size": 1000})
