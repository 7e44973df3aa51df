"""Says what this machine can run, what is missing, and what mends it: `harness doctor`.

`examine` reads (host.py, and the control groups), tries (trials.py) and lets each check judge (checks.py).
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from harness import cgroups, host
from harness.doctor import checks, trials
from harness.doctor.checks import Check, Finding, System
from harness.inventory import BackendEntry, stacks_of


def examine(
    backends: Sequence[BackendEntry], problems: Sequence[str], cache: Path, results: Path, root: Path = Path("/")
) -> list[Check]:
    """Every check, in the order in which one would mend things. `problems` are those of the plugins; `root` holds /proc and /sys.

    Takes about a second: a small file is compiled, arithmetic is timed, Docker is asked.
    """
    system, stacks, facts = read_system(root), stacks_of(backends), host.host_facts(root)
    return [
        checks.python(sys.version_info[:3], system),
        checks.venv(*trials.bundled_pip(), system),
        checks.backends(backends, problems),
        checks.environments(stacks),
        checks.compiler(trials.build_extension(results, system.include), [each.backend for each in backends], system),
        checks.cache_disk(trials.read_disk(cache), stacks),
        checks.results_disk(trials.read_disk(results)),
        checks.memory(cgroups.memory_available_bytes(root), cgroups.memory_limit_bytes(root), len(backends)),
        checks.processors(facts, cgroups.cpu_limit(root)),
        checks.governor(facts, system),
        checks.load(os.getloadavg(), facts["cpu_logical_cores"]),
        checks.steadiness(trials.time_arithmetic()),
        checks.nvidia(facts, count_nvidia_cards(root), (root / "dev/nvidiactl").exists(), system),
        checks.docker(trials.ask_docker(), backends, system),
    ]


def can_run(found: Sequence[Check]) -> bool:
    """Whether nothing that the quick matrix needs is missing."""
    return not any(check.finding is Finding.MISSING for check in found)


def read_system(root: Path) -> System:
    """What is installed how, here."""
    return System(
        is_debian=_is_debian(),
        is_root=os.geteuid() == 0,
        has_systemd=(root / "run/systemd/system").is_dir(),
        python=f"python{sys.version_info[0]}.{sys.version_info[1]}",
        python_prefix=Path(sys.base_prefix),
        include=Path(sysconfig.get_path("include")),
    )


def count_nvidia_cards(root: Path = Path("/")) -> int:
    """Display and compute cards of NVIDIA on the PCI bus, with or without a driver."""
    devices = (root / "sys/bus/pci/devices").glob("*")
    return sum(_pci(device, "vendor") == "0x10de" and _pci(device, "class").startswith("0x03") for device in devices)


def _pci(device: Path, name: str) -> str:
    try:
        return (device / name).read_text().strip()
    except OSError:
        return ""


def _is_debian() -> bool:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    return "debian" in f"{release['ID']} {release.get('ID_LIKE', '')}".split()
