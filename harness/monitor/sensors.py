"""All sensors of this machine together. Each may be missing; then the reason is in the header, or beside the reading."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from harness.monitor.gpus import Gpus, NoGpusError
from harness.monitor.log import GpuReading, Header, Sample
from harness.monitor.processor import Processor
from harness.monitor.rapl import POWERCAP, NoPackagesError, Packages

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The first PID namespace always has this number (the kernel's PROC_PID_INIT_INO). NVML counts processes as it does."""


class Sensors:
    """What a monitor reads."""

    def __init__(self, device: str, gpus: Gpus | str, packages: Packages | str) -> None:
        """Of what is not there: why."""
        self._device = device
        self._gpus = gpus
        self._packages = packages
        self._processor = Processor()

    @classmethod
    def of(cls, device: str, powercap: Path = POWERCAP) -> Sensors:
        """Those of this machine that matter for cells of a device kind: a GPU is not asked, nor woken, for cells on the cpu."""
        gpus = _gpus() if device == "cuda" else f"the cell runs on {device}"
        return cls(device, gpus, _packages(powercap))

    def header(self, interval_s: float) -> Header:
        gpus, packages = self._gpus, self._packages
        first, first_reason = (None, gpus) if isinstance(gpus, str) else gpus.first(os.environ)
        return Header(
            interval_s=interval_s,
            device=self._device,
            gpus=[] if isinstance(gpus, str) else gpus.listed,
            gpus_reason=gpus if isinstance(gpus, str) else None,
            first_gpu=first,
            first_gpu_reason=first_reason,
            packages=[] if isinstance(packages, str) else packages.names,
            packages_reason=packages if isinstance(packages, str) else None,
            counts_pids_as_host=_counts_pids_as_host(),
        )

    def sample(self, mark: str | None) -> Sample:
        reasons: dict[str, str] = {}
        at_ns = time.monotonic_ns()
        energy_j = self._package_energy_j(reasons)
        busy_s, total_s = self._processor.times_s()
        if self._processor.frequency_reason:
            reasons["cpu_frequency_hz"] = self._processor.frequency_reason
        return Sample(
            at_ns=at_ns,
            mark=mark,
            cpu_busy_s=busy_s,
            cpu_total_s=total_s,
            cpu_frequency_hz=self._processor.frequency_hz(),
            package_energy_j=energy_j,
            gpus=self._gpu_readings(),
            reasons=reasons,
        )

    def _package_energy_j(self, reasons: dict[str, str]) -> float | None:
        if isinstance(self._packages, str):
            reasons["package_energy_j"] = self._packages
            return None
        try:
            return self._packages.read()
        except (OSError, ValueError) as error:
            reasons["package_energy_j"] = str(error)
            return None

    def _gpu_readings(self) -> Mapping[str, GpuReading]:
        return {} if isinstance(self._gpus, str) else self._gpus.readings()


def _gpus() -> Gpus | str:
    try:
        return Gpus()
    except NoGpusError as error:
        return str(error)


def _packages(powercap: Path) -> Packages | str:
    try:
        return Packages(powercap)
    except NoPackagesError as error:
        return str(error)


def _counts_pids_as_host() -> bool:
    try:
        return Path("/proc/self/ns/pid").readlink() == Path(INITIAL_PID_NAMESPACE)
    except OSError:
        return False
