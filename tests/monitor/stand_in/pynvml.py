"""Stands in for nvidia-ml-py's module: its constants and exceptions are the real ones, its functions tell of invented GPUs.

Put in front on the Python path, it is what `import pynvml` finds. The machine to play is JSON in the variable STAND_IN_GPUS: a
list of GPUs (see `Board`), or the name of the exception that `nvmlInit` raises. A test compares the functions' parameters with the
real ones'.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


def _real_module() -> Any:
    """nvidia-ml-py's own module, under another name: this one is called as it is."""
    distribution = importlib.metadata.distribution("nvidia-ml-py")
    spec = importlib.util.spec_from_file_location("real_pynvml", distribution.locate_file("pynvml.py"))
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


real = _real_module()
globals().update({name: value for name, value in vars(real).items() if name.startswith(("nvmlClocks", "NVML"))})


@dataclass
class Instance:
    """A MIG instance."""

    uuid: str
    memory_used_bytes: int = 0
    processes: list[list[int | None]] = field(default_factory=list)


@dataclass
class Board:
    """A GPU. `refuses`: functions that it does not support. `lost_after_calls`: it falls off the bus then."""

    uuid: str
    name: str = "NVIDIA Invented"
    watts: float = 100.0  # what the energy counter grows by in a second; CLOCK_MONOTONIC is its origin
    utilisation: int = 50  # percent
    memory_used_bytes: int = 1 << 30
    throttle: int = 0
    mig: bool = False
    instances: list[Instance | None] = field(default_factory=list)  # null: a gap in the numbers
    processes: list[list[int | None]] = field(default_factory=list)  # [pid, bytes]
    refuses: list[str] = field(default_factory=list)
    lost_after_calls: int | None = None
    calls: int = 0


_initialised: list[Board] | None = None


def nvmlInit() -> None:
    global _initialised
    played = json.loads(os.environ["STAND_IN_GPUS"])
    if isinstance(played, str):
        raise getattr(real, played)
    _initialised = [_board(each) for each in played]


def _board(played: dict[str, Any]) -> Board:
    instances = [each and Instance(**each) for each in played.pop("instances", [])]
    return Board(**played, instances=instances)


def _asked(handle: Board | Instance, function: str) -> Any:
    if _initialised is None:
        raise real.NVMLError_Uninitialized
    if isinstance(handle, Board):
        handle.calls += 1
        if handle.lost_after_calls is not None and handle.calls > handle.lost_after_calls:
            raise real.NVMLError_GpuIsLost
        if function in handle.refuses:
            raise real.NVMLError_NotSupported
    return handle


def nvmlDeviceGetCount() -> int:
    if _initialised is None:
        raise real.NVMLError_Uninitialized
    return len(_initialised)


def nvmlDeviceGetHandleByIndex(index: int) -> Board:
    assert _initialised is not None
    return _asked(_initialised[index], "nvmlDeviceGetHandleByIndex")


def nvmlDeviceGetUUID(handle: Board | Instance) -> str:
    return _asked(handle, "nvmlDeviceGetUUID").uuid


def nvmlDeviceGetName(handle: Board | Instance) -> str:
    _asked(handle, "nvmlDeviceGetName")
    return handle.name if isinstance(handle, Board) else "NVIDIA Invented MIG 1g.10gb"


def nvmlDeviceGetMigMode(device: Board) -> list[int]:
    _asked(device, "nvmlDeviceGetMigMode")
    return [int(device.mig), int(device.mig)]


def nvmlDeviceGetMaxMigDeviceCount(device: Board) -> int:
    return len(_asked(device, "nvmlDeviceGetMaxMigDeviceCount").instances)


def nvmlDeviceGetMigDeviceHandleByIndex(device: Board, index: int) -> Instance:
    found = _asked(device, "nvmlDeviceGetMigDeviceHandleByIndex").instances[index]
    if found is None:
        raise real.NVMLError_NotFound
    return found


def nvmlDeviceGetUtilizationRates(handle: Board | Instance) -> SimpleNamespace:
    if isinstance(handle, Instance):
        raise real.NVMLError_NotSupported
    return SimpleNamespace(gpu=_asked(handle, "nvmlDeviceGetUtilizationRates").utilisation, memory=0)


def nvmlDeviceGetMemoryInfo(handle: Board | Instance, version: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(used=_asked(handle, "nvmlDeviceGetMemoryInfo").memory_used_bytes)


def nvmlDeviceGetPowerUsage(handle: Board) -> int:
    return round(_asked(handle, "nvmlDeviceGetPowerUsage").watts * 1e3)


def nvmlDeviceGetTotalEnergyConsumption(handle: Board) -> int:
    return round(_asked(handle, "nvmlDeviceGetTotalEnergyConsumption").watts * time.monotonic() * 1e3)


def nvmlDeviceGetTemperature(handle: Board, sensor: int) -> int:
    _asked(handle, "nvmlDeviceGetTemperature")
    assert sensor == real.NVML_TEMPERATURE_GPU
    return 61


def nvmlDeviceGetClockInfo(handle: Board, type: int) -> int:  # noqa: A002 - NVML's own word
    _asked(handle, "nvmlDeviceGetClockInfo")
    return {real.NVML_CLOCK_SM: 1410, real.NVML_CLOCK_MEM: 1215}[type]


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: Board) -> int:
    return _asked(handle, "nvmlDeviceGetCurrentClocksThrottleReasons").throttle


def nvmlDeviceGetComputeRunningProcesses(handle: Board | Instance) -> list[SimpleNamespace]:
    found = _asked(handle, "nvmlDeviceGetComputeRunningProcesses").processes
    return [SimpleNamespace(pid=pid, usedGpuMemory=used_bytes) for pid, used_bytes in found]
