"""The monitor's log, cut into the stretches that the host has marked. Pure, but for reading the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.monitor import log
from harness.monitor.log import GpuReading, Header, Sample

NS = 1e9

_HEADER = TypeAdapter(Header)
_SAMPLE = TypeAdapter(Sample)

Reading = Callable[[Sample], float | None]
"""One number of a sample, as `lambda sample: sample.cpu_frequency_hz`."""


class NotSeenError(Exception):
    """What was asked of a log is not in it; the text says why."""


@dataclass(frozen=True)
class Span:
    """The samples of one stretch, in order: the first at its start, the last at its end, at least these two."""

    samples: Sequence[Sample]

    @property
    def elapsed_s(self) -> float:
        return (self.samples[-1].at_ns - self.samples[0].at_ns) / NS

    @property
    def within(self) -> Sequence[Sample]:
        """Without the first: a reading tells of what came before it."""
        return self.samples[1:]

    def rise(self, counter: Reading) -> float | None:
        """How far a counter has gone up. None where it was not read at both ends, or went back."""
        first, last = counter(self.samples[0]), counter(self.samples[-1])
        return None if first is None or last is None or last < first else last - first

    def integral(self, rate: Reading) -> float | None:
        """Over seconds, by the trapezoidal rule. None where a reading is missing."""
        points = [(sample.at_ns / NS, rate(sample)) for sample in self.samples]
        known = [(at_s, value) for at_s, value in points if value is not None]
        if len(known) < len(points):
            return None
        return sum((later - sooner) * (b + a) / 2 for (sooner, a), (later, b) in pairwise(known))


@dataclass(frozen=True)
class Log:
    """What one block's monitor has written."""

    header: Header
    samples: Sequence[Sample]

    def span(self, name: str) -> Span | None:
        """The stretch of that name; None where an edge of it is missing."""
        edges = {sample.mark: index for index, sample in enumerate(self.samples) if sample.mark}
        start, end = edges.get(log.mark(name, "start")), edges.get(log.mark(name, "end"))
        return None if start is None or end is None else Span(self.samples[start : end + 1])

    @property
    def launches(self) -> frozenset[str]:
        """Ids of the launches with rounds in it."""
        marks = (sample.mark for sample in self.samples if sample.mark)
        return frozenset(mark.partition("/")[0] for mark in marks) - {log.IDLE}


def read_log(file: Path) -> Log:
    """What a monitor wrote; a last line that it was killed at is left out. Raises NotSeenError."""
    try:
        header, *lines = file.read_bytes().splitlines(keepends=True) or [b""]
        whole = [line for line in lines if line.endswith(b"\n")]
        return Log(_HEADER.validate_json(header), [_SAMPLE.validate_json(line) for line in whole])
    except OSError as error:
        raise NotSeenError(f"the monitor's log cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise NotSeenError(f"the monitor's log cannot be read: {error.errors()[0]['msg']}") from None


def of_gpu(uuid: str, reading: Callable[[GpuReading], float | None]) -> Reading:
    """A number of one GPU."""
    return lambda sample: reading(sample.gpus[uuid]) if uuid in sample.gpus else None


def mean(spans: Sequence[Span], reading: Reading) -> float | None:
    """Over the time of the stretches: a reading stands for the time since the sample before it. None where all are missing."""
    weighted = [
        ((later.at_ns - sooner.at_ns), value)
        for span in spans
        for sooner, later in pairwise(span.samples)
        if (value := reading(later)) is not None
    ]
    weight = sum(elapsed_ns for elapsed_ns, _ in weighted)
    return sum(elapsed_ns * value for elapsed_ns, value in weighted) / weight if weight else None


def peak(spans: Sequence[Span], reading: Reading) -> float | None:
    """The highest reading within the stretches; None where all are missing."""
    return max(
        (value for span in spans for sample in span.within if (value := reading(sample)) is not None), default=None
    )
