"""What was compiled after the cold start, by shape of the inputs: how often, and how long the calls took in which it happened."""

from __future__ import annotations

from collections.abc import Sequence

from harness.worker.api import Arrays
from harness.worker.timing import LatencyStretch, ThroughputStretch


class CompileLedger:
    """Entries gather until they are taken."""

    def __init__(self, slots: Sequence[Arrays]) -> None:
        self._shapes = [shape_of(slot) for slot in slots]
        self._count: dict[str, int] = {}
        self._elapsed_ns: dict[str, int | None] = {}

    def add(self, stretch: LatencyStretch | ThroughputStretch) -> None:
        """Enter what was compiled during a stretch. Calls back to back tell neither which it was nor how long it took."""
        if isinstance(stretch, ThroughputStretch):
            self._enter(" or ".join(dict.fromkeys(self._shapes)), stretch.compiled, None)
            return
        for call in stretch.compiled.nonzero()[0]:
            self._enter(self._shapes[stretch.slot[call]], int(stretch.compiled[call]), int(stretch.total_ns[call]))

    def take(self) -> tuple[dict[str, int], dict[str, int | None]]:
        """Compilations by shape and nanoseconds by shape, since they were last taken."""
        taken = self._count, self._elapsed_ns
        self._count, self._elapsed_ns = {}, {}
        return taken

    def _enter(self, shape: str, count: int, elapsed_ns: int | None) -> None:
        if not count:
            return
        known_ns = self._elapsed_ns.get(shape, 0)
        self._count[shape] = self._count.get(shape, 0) + count
        self._elapsed_ns[shape] = None if elapsed_ns is None or known_ns is None else known_ns + elapsed_ns


def shape_of(slot: Arrays) -> str:
    """Inputs in words, as "attention_mask 1x128, input_ids 1x128"."""
    return ", ".join(f"{name} {'x'.join(map(str, slot[name].shape)) or 'scalar'}" for name in sorted(slot))
