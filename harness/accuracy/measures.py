"""The numbers themselves. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


def perplexity(log_likelihoods: Values) -> float:
    """exp of the mean negative log-likelihood of tokens, natural logarithms: among how many equally likely ones a model wavers.

    Infinite where tokens were held to be impossible, or nearly so; NaN where a likelihood is.
    """
    mean = -float(np.mean(log_likelihoods))
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


def rank_correlation(some: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Spearman's: Pearson's of the ranks, equal values sharing the mean of theirs.

    NaN where one side has no order: all values are equal, or one is NaN.
    """
    sides = np.asarray(some, np.float64), np.asarray(others, np.float64)
    if any(np.isnan(side).any() or np.ptp(side) == 0 for side in sides):
        return math.nan
    from scipy.stats import spearmanr  # here, for its import takes longer than `harness --help` should

    found: Any = spearmanr(*sides)
    return float(found.statistic)


def cosine_similarities(some: Values, others: Values) -> Values:
    """Row by row of two arrays of shape (rows, hidden). NaN where a row is zero or has NaN."""
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        similarities: Values = (some * others).sum(axis=1) / lengths
    return similarities
