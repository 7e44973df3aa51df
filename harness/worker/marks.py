"""What the calls of a marked round stamp: names and instants, gathered call by call and checked when the round is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.worker.api import Mark


@dataclass(frozen=True)
class Stamped:
    """The stamps of a stretch of calls."""

    names: tuple[str, ...]  # in the order stamped, the same in every call; empty where calls stamp nothing
    since_start_ns: npt.NDArray[np.int64]  # (calls, names): since the start of each call


class Stamps:
    """Hands a mark to each call and keeps what it stamps. Between two stamps nothing is done but to keep one."""

    def __init__(self, call: Callable[[Mark], None], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._call = call
        self._clock = clock
        self._calls: list[tuple[int, list[tuple[str, int]]]] = []

    def call(self) -> None:
        """One call that stamps."""
        stamps: list[tuple[str, int]] = []
        clock, keep = self._clock, stamps.append
        self._calls.append((clock(), stamps))
        self._call(lambda name: keep((name, clock())))

    def stamped(self) -> Stamped:
        """Of all calls so far, one at least. Raises ValueError where one stamped other names than the first."""
        names = [tuple(name for name, _ in stamps) for _, stamps in self._calls]
        odd = next((call for call, stamped in enumerate(names) if stamped != names[0]), None)
        if odd is not None:
            raise ValueError(
                f"call {odd + 1} of a marked round stamped {_listed(names[odd])}, the first one {_listed(names[0])}: "
                "every call must stamp the same"
            )
        since_ns = [[at_ns - started_ns for _, at_ns in stamps] for started_ns, stamps in self._calls]
        return Stamped(names[0], np.array(since_ns, np.int64))


def _listed(names: tuple[str, ...]) -> str:
    """As `first_token, 31 x token`; generation stamps the same name hundreds of times."""
    counts = {name: names.count(name) for name in names}
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items()) or "nothing"
