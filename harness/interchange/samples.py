"""Seconds that another tool measured, as numbers of ours: the same medians and quantiles, by the same rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness import stats
from harness.model import Measurements

NS = 1e9

Numbers = dict[str, Any]


def of_latencies(seconds: Sequence[float]) -> Numbers:
    """Fields of Measurements that follow from the latencies of single calls, those unknown left out."""
    quantiles = {f"{name}_s": _quantile_s(seconds, q) for name, q in stats.QUANTILES.items()}
    found: Mapping[str, Any] = {
        "median_latency_s": stats.median(seconds),
        "latency_iqr_s": stats.interquartile_range(seconds),
        **quantiles,
        "samples": len(seconds),
    }
    return {name: value for name, value in found.items() if value is not None}


def measurements(numbers: Numbers, reasons: Mapping[str, str], otherwise: str) -> Measurements:
    """Numbers of one process, every other one null for its reason, or for the one that holds otherwise."""
    unknown = [name for name, info in Measurements.model_fields.items() if info.default is None and name not in numbers]
    why = {name: reasons.get(name, otherwise) for name in unknown}
    return Measurements(**numbers, launches=1, reasons=why)


def _quantile_s(seconds: Sequence[float], q: float) -> float | None:
    found = stats.pooled_quantile([np.asarray(np.round(np.asarray(seconds) * NS), np.int64)], q)
    return None if found is None else found.value / NS
