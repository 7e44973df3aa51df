"""From what a worker has kept of the windows' outputs to a number."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.accuracy import measures, texts
from harness.accuracy.windows import Windows
from harness.model import AccuracyRecord
from harness.worker.arrays import read_inputs

Metric = Literal["perplexity", "spearman"]

METRICS: Mapping[str, Metric] = {"text-generation": "perplexity", "feature-extraction": "spearman"}
"""By task."""

IS_BETTER: Mapping[str, str] = {"perplexity": "lower", "spearman": "higher"}


def judge(windows: Windows, task: str, file: Path) -> AccuracyRecord:
    """The accuracy of a cell of the task, by the npz file. One that is broken is a reason, no exception."""
    metric = METRICS[task]
    try:
        kept = _read(file, windows.rows)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return AccuracyRecord(metric=metric, reason=f"what the worker wrote cannot be read: {error}")
    value, count = _MEASURES[metric](windows, kept)
    if not math.isfinite(value):
        return AccuracyRecord(metric=metric, count=count, reason=f"{metric} came to {value}")
    return AccuracyRecord(metric=metric, count=count, value=value)


Kept = Mapping[str, npt.NDArray[Any]]
"""By name, (rows, ...), without the rows that only filled up the last batch."""


def _read(file: Path, rows: int) -> Kept:
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name][:rows] for name in arrays.files}


def _perplexity(windows: Windows, kept: Kept) -> tuple[float, int]:
    """And the number of tokens: those that are none themselves, or follow none, are padding's."""
    masks = read_inputs(windows.folder)["attention_mask"].astype(bool)
    mask = masks.reshape(-1, masks.shape[-1])[: windows.rows]
    found = kept["log_likelihoods"][mask[:, 1:] & mask[:, :-1]]
    return measures.perplexity(found), len(found)


def _spearman(_: Windows, kept: Kept) -> tuple[float, int]:
    """And the number of pairs."""
    grades = [pair.grade for pair in texts.pairs()]
    similarities = measures.cosine_similarities(kept["embeddings"][0::2], kept["embeddings"][1::2])
    return measures.rank_correlation(similarities, grades), len(grades)


_MEASURES: Mapping[Metric, Callable[[Windows, Kept], tuple[float, int]]] = {
    "perplexity": _perplexity,
    "spearman": _spearman,
}
