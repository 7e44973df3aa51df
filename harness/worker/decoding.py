"""A generation made step by step, as one set of outputs: every token chosen, and the logits that the choice was about.

Of each step only the largest logits are kept: those of a whole vocabulary would be hundreds of megabytes, and only near-equal
ones at the top can explain why two backends chose differently. Host and worker both import this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.worker.api import Arrays, Operation

KEPT_LOGITS = 8
"""Of each row and step, the largest; all of a vocabulary that has fewer."""


def decode_outputs(operation: Operation, slot: int) -> Arrays:
    """What a decode operation makes of a slot from the prompt to its last step.

    `tokens`, int64 of (batch, new tokens); `top_tokens` and `top_logits`, of (batch, new tokens, KEPT_LOGITS), the largest first.
    Raises TypeError for an operation that does not say how many steps it has.
    """
    if operation.calls_per_begin is None:
        raise TypeError("decode must have calls_per_begin of new_tokens - 1, not None: its steps come to an end")
    operation.begin(slot)
    steps = [step_outputs(operation.outputs())]
    for _ in range(operation.calls_per_begin):
        operation.call()
        operation.wait()
        steps.append(step_outputs(operation.outputs()))
    return stacked(steps)


def step_outputs(outputs: Arrays) -> Arrays:
    """One step's outputs, of its logits, (batch, vocabulary), only the largest. Without `tokens` the likeliest one is meant."""
    top_tokens, top_logits = _largest(np.asarray(outputs["logits"]))
    return {"tokens": outputs.get("tokens", top_tokens[:, 0]), "top_tokens": top_tokens, "top_logits": top_logits}


def stacked(steps: Sequence[Arrays]) -> Arrays:
    """Outputs of steps, (batch, ...) each, as (batch, steps, ...)."""
    return {name: np.stack([step[name] for step in steps], axis=1) for name in steps[0]}


def _largest(logits: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Tokens and logits, the largest first, of equal ones the lower token first. NaN counts as largest, so that it is seen."""
    order = np.where(np.isnan(logits), np.inf, logits)
    kept = min(KEPT_LOGITS, logits.shape[-1])
    tokens = np.sort(np.argpartition(-order, kept - 1, axis=-1)[..., :kept], axis=-1)
    by_size = np.argsort(-np.take_along_axis(order, tokens, axis=-1), axis=-1, kind="stable")
    tokens = np.take_along_axis(tokens, by_size, axis=-1)
    return tokens.astype(np.int64), np.take_along_axis(logits, tokens, axis=-1)
