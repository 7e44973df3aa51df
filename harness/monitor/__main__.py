"""`python -P -m harness.monitor LOG INTERVAL_S DEVICE`: reads the sensors of this machine until stdin ends.

What it writes, and what it answers on stdout: `harness.monitor.sampling`. Stdin ends however the host dies, so it leaves nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.monitor.sampling import watch
from harness.monitor.sensors import Sensors


def main(log: str, interval_s: str, device: str) -> None:
    """Raises OSError where the log cannot be written: whoever started this then sees the end of stdout."""
    with (
        Path(log).open("x", encoding="utf-8") as lines,
        open(0, "rb", buffering=0) as commands,  # unbuffered, so that select sees every line
        open(1, "w", encoding="utf-8") as answers,
    ):
        watch(Sensors.of(device), commands, lines, answers, float(interval_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
