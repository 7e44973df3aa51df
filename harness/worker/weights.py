"""Weights that a checkpoint lacks. Transformers fills them with random numbers and only logs it: no output means anything then."""

from __future__ import annotations

from collections.abc import Iterable

from harness.worker.api import Unsupported

UNCOMPARED = "pooler."
"""How the names of those weights begin, in a model without a head, that no compared output depends on: checkpoints of masked
language models lack them. Heads that take what the pooler gives have it under the name of the model within: those are needed."""


def refuse_missing(missing: Iterable[str], model: object) -> None:
    """Raise Unsupported where the model's outputs would depend on a weight that its checkpoint lacks, by names with dots within."""
    needed = sorted(name for name in missing if not name.startswith(UNCOMPARED))
    if needed:
        raise Unsupported(
            f"{type(model).__name__} needs {len(needed)} weights that the checkpoint lacks, as {needed[0]}"
        )
