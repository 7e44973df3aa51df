"""What the monitor writes: a `Header`, then one `Sample` a line, as JSON. Standard library only; the host reads it with `spans`.

Unknown is null, with a sentence in `reasons` by field name.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Edge = Literal["start", "end"]

IDLE = "idle"
"""The stretch, before a block's workers start, whose power is subtracted."""


def round_name(launch_id: str, index: int) -> str:
    """What the stretch of a launch's round is called."""
    return f"{launch_id}/{index}"


def mark(name: str, edge: Edge) -> str:
    """What the sample taken at the start or the end of a stretch is marked with."""
    return f"{name}/{edge}"


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int  # as the host counts
    used_bytes: int | None  # null where the driver does not tell, as on Windows
    launch: str | None  # HARNESS_LAUNCH in its environment; null: no worker of a harness, or another user's process


@dataclass(frozen=True)
class GpuReading:
    """One look at a GPU or MIG instance."""

    utilisation: float | None  # part of the last moments in which a kernel ran: 0 to 1
    memory_used_bytes: int | None  # by whomever
    power_w: float | None
    energy_j: float | None  # a counter, from any origin
    temperature_c: float | None
    sm_clock_hz: float | None
    memory_clock_hz: float | None
    throttle_reasons: Sequence[str] | None  # why the clock is lower than it could be, as "sw_power_cap"
    processes: Sequence[GpuProcess] | None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One look at the machine."""

    at_ns: int  # CLOCK_MONOTONIC, which all processes of this machine share
    mark: str | None  # the edge of a stretch that the host asked for; null: taken because the interval was over
    cpu_busy_s: float | None  # processor seconds since boot, all processors
    cpu_total_s: float | None  # idle ones too
    cpu_frequency_hz: float | None  # mean over the processors
    package_energy_j: float | None  # of all processor packages, since the monitor started
    gpus: Mapping[str, GpuReading]  # by UUID
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """A GPU that CUDA may compute on, or a MIG instance of one."""

    uuid: str
    name: str
    parent_uuid: str | None  # of a MIG instance: the GPU


@dataclass(frozen=True)
class Header:
    """First line: what is watched, and why not the rest."""

    interval_s: float
    device: str  # kind of the cells: of cells on the cpu no GPU is asked
    gpus: Sequence[Gpu]
    gpus_reason: str | None  # why there are none
    first_gpu: str | None  # UUID of what CUDA calls device 0 here
    first_gpu_reason: str | None
    packages: Sequence[str]  # processor packages with a readable energy counter
    packages_reason: str | None
    counts_pids_as_host: bool  # False: we are in a container ourselves, and NVML's process ids mean nothing here

    @property
    def measures_energy(self) -> bool:
        """Whether energy of this kind of device may be had at all."""
        return bool(self.packages if self.device == "cpu" else self.gpus)


def to_line(line: Header | Sample) -> str:
    """One line of JSON, newline included."""
    return json.dumps(dataclasses.asdict(line), allow_nan=False) + "\n"
