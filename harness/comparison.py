"""A cell against its baseline: what was measured together in a block compares, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness import stats
from harness.model import Protocol
from harness.samples import MeasuredLaunch


@dataclass(frozen=True)
class Pair:
    """A cell's launch and its baseline's in one block."""

    mine: MeasuredLaunch
    baseline: MeasuredLaunch

    @property
    def log_ratio(self) -> float | None:
        """log(median of the baseline / median of the cell): above 0, the cell is faster."""
        mine_s, baseline_s = self.mine.median_latency_s, self.baseline.median_latency_s
        return math.log(baseline_s / mine_s) if mine_s and baseline_s else None

    @property
    def costs(self) -> tuple[stats.Cost, stats.Cost] | None:
        mine, baseline = self.mine.cost, self.baseline.cost
        return (mine, baseline) if mine and baseline else None


def pairs(launches: Sequence[MeasuredLaunch], baseline: Sequence[MeasuredLaunch]) -> list[Pair]:
    """One for each block that has both, in the order of `launches`."""
    of_block = {x.record.block_id: x for x in baseline}
    return [Pair(x, of_block[x.record.block_id]) for x in launches if x.record.block_id in of_block]


def log_ratios(launches: Sequence[MeasuredLaunch], baseline: Sequence[MeasuredLaunch]) -> list[float]:
    """One for each block in which both were timed, in the order of `launches`."""
    found = (pair.log_ratio for pair in pairs(launches, baseline))
    return [value for value in found if value is not None]


def criteria(protocol: Protocol, comparisons: int) -> stats.Criteria:
    """What the protocol asks for, in a workload of so many comparisons."""
    return stats.Criteria(protocol.blocks, protocol.half_width, protocol.margin, comparisons)
