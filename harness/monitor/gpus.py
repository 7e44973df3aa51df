"""GPUs and MIG instances as NVML sees them, named by UUID: NVML's numbers are not CUDA's.

NVML is asked on the host, so its process ids are the host's whatever container a worker is in. Every question may be refused (an
older GPU, a MIG instance, a GPU that fell off the bus): that reading is null with NVML's own words, and the next is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil
import pynvml

from harness.executors.processes import LAUNCH_VARIABLE
from harness.monitor.log import Gpu, GpuProcess, GpuReading

Handle = Any  # a ctypes pointer of pynvml's
T = TypeVar("T")

THROTTLE_REASONS: Mapping[int, str] = {
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "applications_clocks_setting",
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "sw_power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "sw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "hw_power_brake_slowdown",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display_clock_setting",
}
"""NVML's bits. `GpuIdle` is left out: an idle GPU that saves power is not kept from anything."""

SHARED_WITH_OTHER_INSTANCES = (
    "a MIG instance has no power reading of its own, and the GPU's is shared with other instances"
)


class NoGpusError(Exception):
    """The text says why no GPU can be watched."""


@dataclass(frozen=True)
class _Board:
    """A whole GPU."""

    gpu: Gpu
    handle: Handle
    instances: Sequence[_Device]  # of MIG; empty where MIG is off

    @property
    def devices(self) -> Sequence[_Device]:
        """What CUDA computes on: with MIG on never the GPU itself."""
        return self.instances or [_Device(self.gpu, self.handle, self.handle)]


@dataclass(frozen=True)
class _Device:
    gpu: Gpu
    handle: Handle
    board: Handle  # of the whole GPU; the same handle where it is no MIG instance


class Gpus:
    """All that CUDA may compute on here."""

    def __init__(self) -> None:
        """Raises NoGpusError: no driver, no GPU, or a driver that refuses."""
        try:
            pynvml.nvmlInit()
            self._boards = list(_boards())
        except pynvml.NVMLError as error:
            raise NoGpusError(f"NVML: {error}") from None
        if not self._boards:
            raise NoGpusError("the NVIDIA driver lists no GPU")
        self._processes = _Processes()

    @property
    def listed(self) -> list[Gpu]:
        return [device.gpu for device in self._devices()]

    def readings(self) -> Mapping[str, GpuReading]:
        """By UUID."""
        return {device.gpu.uuid: self._read(device) for device in self._devices()}

    def first(self, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
        """(UUID of the device that CUDA calls 0 in a process with this environment, or why it is not known).

        CUDA_VISIBLE_DEVICES names GPUs by number, by UUID, or by the beginning of one. By number, CUDA means the fastest first
        unless CUDA_DEVICE_ORDER says PCI_BUS_ID, which is NVML's order: among unlike GPUs that cannot be told from here.
        """
        wanted = environment.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        by_number = wanted.isdecimal()
        if by_number and self._are_unlike() and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return None, "the GPUs differ, so CUDA's numbers are not NVML's; set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        found = self._numbered(int(wanted)) if by_number else self._named(wanted)
        if len(found) == 1:
            return found[0].gpu.uuid, None
        return None, f"CUDA_VISIBLE_DEVICES begins with {wanted!r}, which names {len(found) or 'no'} GPUs here"

    def _devices(self) -> Iterator[_Device]:
        return itertools.chain.from_iterable(board.devices for board in self._boards)

    def _are_unlike(self) -> bool:
        return len({board.gpu.name for board in self._boards}) > 1

    def _numbered(self, number: int) -> Sequence[_Device]:
        """Of a GPU with MIG on, CUDA takes the first instance."""
        return self._boards[number].devices[:1] if number < len(self._boards) else []

    def _named(self, wanted: str) -> Sequence[_Device]:
        """A whole GPU's name stands for what CUDA would take of it."""
        instances = [device for device in self._devices() if wanted and device.gpu.uuid.startswith(wanted)]
        boards = [board.devices[0] for board in self._boards if wanted and board.gpu.uuid.startswith(wanted)]
        return list({device.gpu.uuid: device for device in (*instances, *boards)}.values())

    def _read(self, device: _Device) -> GpuReading:
        answers: dict[str, Any] = {name: _asked(question, device) for name, question in _QUESTIONS.items()}
        answers["processes"] = _asked(self._processes.of, device)
        refused = {name: answer.text for name, answer in answers.items() if isinstance(answer, _Refused)}
        values: dict[str, Any] = {name: None if name in refused else answer for name, answer in answers.items()}
        return GpuReading(**values, reasons=refused)


# --- what there is --------------------------------------------------------------------------------------------------


def _boards() -> Iterator[_Board]:
    """In the order of the bus. A GPU that is listed and lost is passed over."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpu = _named_gpu(handle, None)
        except pynvml.NVMLError_GpuIsLost:
            continue
        yield _Board(gpu, handle, [_Device(_named_gpu(each, gpu.uuid), each, handle) for each in _instances(handle)])


def _named_gpu(handle: Handle, parent_uuid: str | None) -> Gpu:
    return Gpu(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), parent_uuid)


def _instances(board: Handle) -> Iterator[Handle]:
    """MIG instances; none where MIG is off or unknown to the GPU. Their numbers may have gaps."""
    try:
        current, _pending = pynvml.nvmlDeviceGetMigMode(board)
    except pynvml.NVMLError_NotSupported:
        return
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(board)):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(board, index)
        except pynvml.NVMLError_NotFound:
            continue


# --- readings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Refused:
    text: str


class _NotAskedError(Exception):
    """A question that makes no sense for the device; the text says why."""


def _asked(question: Callable[[_Device], T], device: _Device) -> T | _Refused:
    try:
        return question(device)
    except pynvml.NVMLError as error:
        return _Refused(f"NVML: {error}")
    except _NotAskedError as error:
        return _Refused(str(error))


def _own_board(device: _Device) -> Handle:
    if device.gpu.parent_uuid:
        raise _NotAskedError(SHARED_WITH_OTHER_INSTANCES)
    return device.board


def _throttle_reasons(device: _Device) -> list[str]:
    bits = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device.board)
    return [name for bit, name in THROTTLE_REASONS.items() if bits & bit]


_QUESTIONS: Mapping[str, Callable[[_Device], Any]] = {
    "utilisation": lambda device: pynvml.nvmlDeviceGetUtilizationRates(device.handle).gpu / 100,
    "memory_used_bytes": lambda device: pynvml.nvmlDeviceGetMemoryInfo(device.handle).used,
    "power_w": lambda device: pynvml.nvmlDeviceGetPowerUsage(_own_board(device)) / 1e3,
    "energy_j": lambda device: pynvml.nvmlDeviceGetTotalEnergyConsumption(_own_board(device)) / 1e3,
    "temperature_c": lambda device: pynvml.nvmlDeviceGetTemperature(device.board, pynvml.NVML_TEMPERATURE_GPU),
    "sm_clock_hz": lambda device: pynvml.nvmlDeviceGetClockInfo(device.board, pynvml.NVML_CLOCK_SM) * 1e6,
    "memory_clock_hz": lambda device: pynvml.nvmlDeviceGetClockInfo(device.board, pynvml.NVML_CLOCK_MEM) * 1e6,
    "throttle_reasons": _throttle_reasons,
}
"""By field of GpuReading. Clocks, heat and their limits are the whole GPU's, a MIG instance's too."""


class _Processes:
    """Who computes on a GPU, and for which launch. What /proc says of a process is read once: a sample must stay cheap."""

    def __init__(self) -> None:
        self._launches: dict[int, str | None] = {}  # by pid

    def of(self, device: _Device) -> list[GpuProcess]:
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(device.handle)
        return [GpuProcess(each.pid, each.usedGpuMemory, self._launch_of(each.pid)) for each in found]

    def _launch_of(self, pid: int) -> str | None:
        if pid not in self._launches:
            self._launches[pid] = _launch_of(pid)
        return self._launches[pid]


def _launch_of(pid: int) -> str | None:
    """None: started by no harness, another user's, or just ended."""
    try:
        environment: Mapping[str, str] = psutil.Process(pid).environ()
    except psutil.Error:
        return None
    return environment.get(LAUNCH_VARIABLE)
