"""After how many calls a cell has overtaken its baseline, the cold start counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.stats.intervals import CONFIDENCE, FEWEST, Interval
from harness.stats.quantiles import RESAMPLES


@dataclass(frozen=True)
class Cost:
    """What calls cost: n of them `start_s + (n - 1) * call_s` seconds, the first being part of the start.

    The start is the cold start plus what the warm-up took beyond steady calls; `call_s` the steady median.
    """

    start_s: float
    call_s: float


@dataclass(frozen=True)
class BreakEven:
    """After how many calls, counted from a cold start, a cell has overtaken its baseline."""

    kind: Literal["always", "after", "until", "never"]
    calls: int | None  # after: the first call from which it leads; until: the last with which it leads; always: 1

    def __str__(self) -> str:
        return f"{self.kind} {self.calls}" if self.kind in ("after", "until") else self.kind

    @property
    def leads_from(self) -> float:
        """The call from which it leads for good; infinity where there is none."""
        return float(self.calls) if self.kind in ("always", "after") and self.calls else math.inf


def break_even(mine: Cost, baseline: Cost) -> BreakEven:
    """Compare two costs. Definition: docs/methodology.md, "Break-even"."""
    dearer, slower = mine.start_s > baseline.start_s, mine.call_s > baseline.call_s
    if not dearer and not slower:
        return BreakEven("always", 1)
    if dearer and mine.call_s >= baseline.call_s:
        return BreakEven("never", None)
    crossing = (mine.start_s - baseline.start_s) / (baseline.call_s - mine.call_s)
    return BreakEven("after", 1 + math.ceil(crossing)) if dearer else BreakEven("until", 1 + math.floor(crossing))


Block = tuple[Cost, Cost]
"""What a cell's launch and its baseline's cost in one block."""


def break_even_over_blocks(blocks: Sequence[Block]) -> BreakEven:
    """Of the medians over blocks, at least one."""
    return _of_medians(_array(blocks))


def break_even_interval(blocks: Sequence[Block]) -> Interval | None:
    """Of the call from which the cell leads for good; None below three blocks, infinity is "never".

    A bootstrap over blocks (Efron 1979): costs of a block belong together, and their ratio has no simple distribution.
    """
    if len(blocks) < FEWEST:
        return None
    costs = _array(blocks)
    drawn = np.random.default_rng(0).integers(len(blocks), size=(RESAMPLES, len(blocks)))
    found = [_of_medians(costs[blocks_drawn]).leads_from for blocks_drawn in drawn]
    tail = (1 - CONFIDENCE) / 2
    # An observed value each: between a number and infinity there is nothing to interpolate.
    low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(low), float(high))


def _array(blocks: Sequence[Block]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(blocks, 4): start and call of the cell, start and call of the baseline; seconds."""
    rows = [(mine.start_s, mine.call_s, base.start_s, base.call_s) for mine, base in blocks]
    return np.array(rows, np.float64).reshape(len(rows), 4)


def _of_medians(costs: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> BreakEven:
    start_s, call_s, base_start_s, base_call_s = map(float, np.median(costs, axis=0))
    return break_even(Cost(start_s, call_s), Cost(base_start_s, base_call_s))
