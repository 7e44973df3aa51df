"""The monitor's loop: a sample when the interval is over, and one whenever the host asks for it, marked with what it says.

Every line of stdin is the mark of a sample to take now; it is repeated on stdout when that sample is in the log, so that the host
can put samples exactly at the edges of a round, outside of what is timed. The header is said on stdout first. The end of stdin
ends the loop.
"""

from __future__ import annotations

import select
from io import RawIOBase
from typing import Protocol, TextIO

from harness.monitor.log import Header, Sample, to_line


class Sensing(Protocol):
    """What is read."""

    def header(self, interval_s: float) -> Header:
        """What there is to read."""

    def sample(self, mark: str | None) -> Sample:
        """All of it, now."""


def watch(sensors: Sensing, commands: RawIOBase, log: TextIO, answers: TextIO, interval_s: float) -> None:
    """Until `commands` ends. It must be unbuffered, and something that can be selected."""
    header = to_line(sensors.header(interval_s))
    _put(log, header)
    _put(answers, header)
    while (mark := _next_mark(commands, interval_s)) != "":
        _put(log, to_line(sensors.sample(mark and mark.rstrip("\n"))))
        if mark:
            _put(answers, mark)


def _next_mark(commands: RawIOBase, interval_s: float) -> str | None:
    """A line, newline included; None when the interval is over before one comes; "" at the end."""
    ready, _, _ = select.select([commands], [], [], interval_s)
    return commands.readline().decode() if ready else None


def _put(stream: TextIO, line: str) -> None:
    stream.write(line)
    stream.flush()
