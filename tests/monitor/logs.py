"""Logs as a monitor writes them, made up line by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from store.factories import a_launch

from harness.model import LaunchRecord, RoundRecord
from harness.monitor.log import IDLE, Edge, Gpu, GpuReading, Header, Sample, mark, round_name, to_line
from harness.monitor.watcher import FILE

GPU = "GPU-aaaaaaaa"


def a_header(**changes: Any) -> Header:
    plain = {
        "interval_s": 0.5,
        "device": "cpu",
        "gpus": [],
        "gpus_reason": "the cell runs on cpu",
        "first_gpu": None,
        "first_gpu_reason": "the cell runs on cpu",
        "packages": ["package-0"],
        "packages_reason": None,
        "counts_pids_as_host": True,
    }
    return Header(**{**plain, **changes})


def a_gpu_header(**changes: Any) -> Header:
    plain = {
        "device": "cuda",
        "gpus": [Gpu(GPU, "NVIDIA Invented", None)],
        "gpus_reason": None,
        "first_gpu": GPU,
        "first_gpu_reason": None,
        "packages": [],
        "packages_reason": "no package",
    }
    return a_header(**{**plain, **changes})


def a_sample(at_s: float, at: str | None = None, **changes: Any) -> Sample:
    plain = {
        "cpu_busy_s": at_s,  # one of the two processors is busy
        "cpu_total_s": 2 * at_s,
        "cpu_frequency_hz": 2e9,
        "package_energy_j": 10 * at_s,
        "gpus": {},
        "reasons": {},
    }
    return Sample(at_ns=round(at_s * 1e9), mark=at, **{**plain, **changes})


def a_reading(**changes: Any) -> GpuReading:
    plain = {
        "utilisation": 0.5,
        "memory_used_bytes": 3 << 30,
        "power_w": 100.0,
        "energy_j": None,
        "temperature_c": 61.0,
        "sm_clock_hz": 1.4e9,
        "memory_clock_hz": 1.2e9,
        "throttle_reasons": [],
        "processes": [],
        "reasons": {},
    }
    return GpuReading(**{**plain, **changes})


def a_gpu_sample(at_s: float, at: str | None = None, uuid: str = GPU, **reading: Any) -> Sample:
    return a_sample(at_s, at, gpus={uuid: a_reading(**reading)})


def idle(edge: Edge) -> str:
    return mark(IDLE, edge)


def of_round(edge: Edge, index: int = 0, launch_id: str = "launch-1") -> str:
    return mark(round_name(launch_id, index), edge)


def write_log(folder: Path, samples: Sequence[Sample], header: Header | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [to_line(header or a_header()), *map(to_line, samples)]
    (folder / FILE).write_text("".join(lines))


def a_round(index: int = 0, **changes: Any) -> RoundRecord:
    plain = {"mode": "latency", "calls": 15, "settle_calls": 5, "elapsed_ns": 10**9, "compilations": 0, "file": None}
    return RoundRecord(index=index, **{**plain, **changes})


def a_watched_launch(launch_id: str = "launch-1", block_id: str = "block-1", **changes: Any) -> LaunchRecord:
    plain = {"rounds": [a_round()], "items": {"samples": 8}}
    return a_launch(launch_id=launch_id, block_id=block_id, **{**plain, **changes})
