"""How busy the processors of the whole machine are, and how fast they run."""

from __future__ import annotations

import time

import psutil

DEAR_S = 0.002
"""A reading of the frequency that takes longer is left out: on machines with many processors the kernel asks each of them."""


class Processor:
    """Counters since boot."""

    def __init__(self) -> None:
        self.frequency_reason = _why_no_frequency()

    def times_s(self) -> tuple[float, float]:
        """(busy, all) processor seconds since boot. Waiting for a disk is idle; time of guests is in user's already."""
        times = psutil.cpu_times()
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total - times.idle - getattr(times, "iowait", 0.0), total

    def frequency_hz(self) -> float | None:
        """Mean over the processors; None where it is not known or dear: `frequency_reason`."""
        return None if self.frequency_reason else psutil.cpu_freq().current * 1e6


def _why_no_frequency() -> str | None:
    started = time.perf_counter()
    if psutil.cpu_freq() is None:
        return "the system does not tell"
    elapsed_s = time.perf_counter() - started
    return f"reading it takes {elapsed_s * 1e3:.0f} ms here: left out" if elapsed_s > DEAR_S else None
