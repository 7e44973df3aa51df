"""How many blocks a workload gets: those of the pilot, then as many as the pilot shows to be needed and the budget allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness import stats
from harness.model import Protocol


class Stopping:
    """Asked before each block. The number is decided once, from the pilot: looking again at every block would call differences
    of nothing real too often (docs/methodology.md)."""

    def __init__(self, protocol: Protocol, criteria: stats.Criteria) -> None:
        self.needed: int | None = None  # by the pilot; None before its end, and where it compares nothing
        self._protocol = protocol
        self._criteria = criteria
        self._seconds: list[float] = []

    def goes_on(self, blocks: int, pilots: Callable[[], Sequence[Sequence[float]]]) -> bool:
        """Whether another block follows on so many. `pilots`: log ratios of the pilot, one sequence per comparison."""
        if blocks < self._protocol.blocks:
            return True
        if blocks == self._protocol.blocks:
            self.needed = stats.needed_blocks(pilots(), self._criteria)
        return blocks < min(self.needed or 0, self._protocol.most_blocks) and self._can_afford_another()

    def block_measured(self, seconds: float) -> None:
        """A block has ended that was not taken from a former run: the budget is that of one run."""
        self._seconds.append(seconds)

    def _can_afford_another(self) -> bool:
        spent_s = sum(self._seconds)
        each_s = spent_s / len(self._seconds) if self._seconds else 0.0
        return spent_s + each_s <= self._protocol.budget_seconds
