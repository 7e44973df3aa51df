"""Machines for the monitor to look at: invented GPUs behind NVML's real names, and /sys trees with counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STAND_IN = Path(__file__).parent / "stand_in"


def stand_in_variables(gpus: list[dict[str, Any]] | str) -> dict[str, str]:
    """Environment of a process for which `import pynvml` finds the stand-in, playing these GPUs."""
    return {"PYTHONPATH": str(STAND_IN), "STAND_IN_GPUS": json.dumps(gpus)}


def a_gpu(letter: str = "a", **changes: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{letter * 8}", **changes}


def mig_gpu(letter: str, *instances: str | None, **changes: Any) -> dict[str, Any]:
    found = [each and {"uuid": f"MIG-{each * 8}", "memory_used_bytes": 7 << 30} for each in instances]
    return a_gpu(letter, mig=True, instances=found, **changes)


def write_package(powercap: Path, number: int, energy_uj: int, range_uj: int = 1000, name: str = "") -> Path:
    """A processor package's folder, whose file `energy_uj` a test may go on writing."""
    folder = powercap / f"intel-rapl:{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name or f'package-{number}'}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder
