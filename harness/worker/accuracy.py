"""What accuracy is told by: a forward pass over texts, and of its outputs only what the measure needs.

Logits of a whole text would be hundreds of megabytes; the likelihoods of its tokens are some kilobytes, and all that perplexity
asks for. The host makes a number of them (`harness.accuracy`): as with parity, the runner has no part in that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.worker.api import Arrays, Transferring
from harness.worker.arrays import at_tokens, read_inputs, slots_of

Reduction = Callable[[Arrays, Arrays], Arrays]
"""Inputs and outputs of one call -> what is kept of them."""


def run_and_reduce(operation: Transferring, task: str, inputs: Path) -> dict[str, npt.NDArray[Any]]:
    """Run every slot of the inputs folder once; what is kept, the rows of all slots one below the other.

    Raises ValueError where the folder holds no inputs, KeyError for a task that is not in `REDUCTIONS`.
    """
    reduce, kept = REDUCTIONS[task], []
    for slot in slots_of(read_inputs(inputs)):
        operation.transfer(slot)
        operation.call()
        operation.wait()
        kept.append(reduce(slot, operation.outputs()))
    return {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}


def log_likelihoods(inputs: Arrays, outputs: Arrays) -> Arrays:
    """{"log_likelihoods": (batch, tokens - 1) float64}: of each token but the first, by the logits of the one before it."""
    rows = zip(outputs["logits"], inputs["input_ids"], strict=True)
    return {"log_likelihoods": np.stack([_of_next_tokens(logits, ids) for logits, ids in rows])}


def embeddings(inputs: Arrays, outputs: Arrays) -> Arrays:
    """{"embeddings": (batch, hidden) float64}: of each row the mean over its tokens, as sentence embeddings are made."""
    mask = inputs["attention_mask"]
    # Not a product with the mask: what stands at padding may be NaN, and is nobody's result.
    summed = at_tokens(outputs["last_hidden_state"], mask, elsewhere=0).sum(axis=1, dtype=np.float64)
    return {"embeddings": summed / mask.sum(axis=1, keepdims=True)}


REDUCTIONS: Mapping[str, Reduction] = {"text-generation": log_likelihoods, "feature-extraction": embeddings}
"""By task. Others have no accuracy measured."""


def _of_next_tokens(logits: npt.NDArray[np.float32], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Row by row, as a batch of logits in double precision could fill the memory."""
    highest = logits.max(axis=-1)
    total = np.exp(logits - highest[:, np.newaxis]).sum(axis=-1, dtype=np.float64)
    chosen = logits[np.arange(len(ids) - 1), ids[1:]].astype(np.float64)
    likelihoods: npt.NDArray[np.float64] = chosen - highest[:-1] - np.log(total[:-1])
    return likelihoods
