"""Facts of this machine, and which of them decide whether two results compare.

Unknown is None with a sentence in `reasons`, by field name. No machine id and no host name: results are published.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pynvml

from harness.model import digest

_COMPARABLE = (
    "cpu_model",
    "cpu_architecture",
    "cpu_logical_cores",
    "cpu_physical_cores",
    "cpuset",
    "cpu_governor",
    "cpu_smt",
    "cpu_turbo",
    "numa_nodes",
    "transparent_hugepages",
    "virtualised",
    "kernel",
    "gpu_models",
    "gpu_driver",
)
"""What enters the host_hash. Not memory_bytes, which moves by some pages from boot to boot; not the Python of the host, since
workers have their own (stack_hash); not the distribution, whose part in the timings is the kernel; not the driver's CUDA,
which follows from the driver; not the container that this process is in, since cpuset says what it leaves us."""

_CPUS = Path("sys/devices/system/cpu")
_GIT_TIMEOUT_S = 20.0  # a cold `git status` in a large checkout on a network disk


T = TypeVar("T")


class Unknown(Exception):  # noqa: N818 - no error: it carries the reason why a fact is None
    """A fact that cannot be known here; the text says why."""


# --- the machine ----------------------------------------------------------------------------------------------------


def host_facts(root: Path = Path("/")) -> dict[str, Any]:
    """Facts by name, JSON values, and `reasons` for those that are None. `root` is where /proc and /sys lie."""
    readers: dict[str, Callable[[], object]] = {
        "cpu_model": lambda: parse_cpu_model(_read(root / "proc/cpuinfo")),
        "cpu_architecture": platform.machine,
        "cpu_logical_cores": lambda: _known(psutil.cpu_count(), "the system does not tell"),
        "cpu_physical_cores": lambda: _known(psutil.cpu_count(logical=False), "the system does not tell"),
        "cpuset": lambda: format_cpus(_cpuset()),  # the processors that this process, and so its workers, may use
        "cpu_governor": lambda: _governor(root / _CPUS, _cpuset()),
        "cpu_smt": lambda: parse_switch(_read(root / _CPUS / "smt/active")),
        "cpu_turbo": lambda: _turbo(root / _CPUS),
        "numa_nodes": lambda: _numa_nodes(root / "sys/devices/system/node"),
        "transparent_hugepages": lambda: parse_choice(_read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "virtualised": lambda: parse_virtualised(_read(root / "proc/cpuinfo")),
        "container": lambda: _container(root),  # around this process; workers may be in others
        "memory_bytes": lambda: psutil.virtual_memory().total,
        "kernel": lambda: f"{platform.system()} {platform.release()}",
        "operating_system": lambda: platform.freedesktop_os_release()["PRETTY_NAME"],
        "python": platform.python_version,
        "gpu_models": lambda: _gpu_models(root / "proc/driver/nvidia/gpus"),
        "gpu_driver": lambda: _gpu_driver(root / "proc/driver/nvidia/version"),
        "gpu_driver_cuda": lambda: _gpu_driver_cuda(root / "proc/driver/nvidia/version"),
    }
    return _gather(readers)


def host_hash(facts: Mapping[str, Any], extra: Mapping[str, object]) -> str:
    """SHA-256 over the facts that decide comparability and those of plugins (`harness_environment`)."""
    return digest({"host": {name: facts[name] for name in _COMPARABLE}, "plugins": extra})


# --- the repository -------------------------------------------------------------------------------------------------


def git_facts(folder: Path) -> dict[str, Any]:
    """`commit`, `branch`, `message` (its first line), `dirty` (tracked files changed) of the checkout that holds `folder`."""
    readers: dict[str, Callable[[], object]] = {
        "commit": lambda: _git(folder, "rev-parse", "--verify", "HEAD"),
        "branch": lambda: _branch(folder),
        "message": lambda: _git(folder, "log", "-1", "--format=%s"),
        "dirty": lambda: _git(folder, "status", "--porcelain", "--untracked-files=no") != "",
    }
    return _gather(readers)


def _branch(folder: Path) -> str:
    name = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    if name == "HEAD":
        raise Unknown("a commit is checked out, no branch")
    return name


def _git(folder: Path, *arguments: str) -> str:
    """What git prints. Raises Unknown with git's own last line."""
    # Set inside hooks; they would answer for another repository than the folder's.
    misleading = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    inherited = {name: value for name, value in os.environ.items() if name not in misleading}
    environment = {**inherited, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    argv = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise Unknown("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unknown(f"git gave no answer in {_GIT_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise Unknown(done.stderr.strip().rpartition("\n")[2] or f"git ended with {done.returncode}")
    return done.stdout.strip()


# --- parsing --------------------------------------------------------------------------------------------------------


def parse_cpu_model(cpuinfo: str) -> str:
    """The processor's name in /proc/cpuinfo; on ARM, which gives none, its implementer and parts. Raises Unknown."""
    for field in ("model name", "cpu model", "cpu"):  # x86 and newer ARM; MIPS; POWER
        if names := _values(cpuinfo, field):
            return " + ".join(names)
    implementers, parts = _values(cpuinfo, "CPU implementer"), _values(cpuinfo, "CPU part")
    if implementers and parts:
        return f"ARM implementer {' + '.join(implementers)} part {' + '.join(parts)}"
    raise Unknown("/proc/cpuinfo names no processor")


def parse_nvidia_driver(version: str) -> str:
    """The driver's version in the text of /proc/driver/nvidia/version. Raises Unknown."""
    match = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", version, re.MULTILINE)
    return str(_known(match and match[1], "the NVIDIA driver tells no version"))


def parse_choice(text: str) -> str:
    """What of a list in /sys holds, as "madvise" of "always [madvise] never". Raises Unknown."""
    match = re.search(r"\[(\S+)\]", text)
    return str(_known(match and match[1], f"/sys says {text.strip()!r}, with nothing in brackets"))


def parse_virtualised(cpuinfo: str) -> bool:
    """Whether a hypervisor is beneath, as x86 processors tell in /proc/cpuinfo. Raises Unknown."""
    flags = _values(cpuinfo, "flags")
    if not flags:
        raise Unknown("only x86 processors tell it in /proc/cpuinfo")
    return any("hypervisor" in each.split() for each in flags)


def parse_switch(text: str) -> bool:
    """A 0 or 1 of /sys. Raises Unknown."""
    if text.strip() not in ("0", "1"):
        raise Unknown(f"/sys says {text.strip()!r}, not 0 or 1")
    return text.strip() == "1"


def format_cpus(cpus: Iterable[int]) -> str:
    """Processor numbers as the kernel writes them, as "0-3,8"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _values(text: str, field: str) -> list[str]:
    """Distinct values of a field of /proc/cpuinfo, in order of appearance."""
    found = re.findall(rf"^{field}[ \t]*:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
    return list(dict.fromkeys(found))


# --- reading --------------------------------------------------------------------------------------------------------


def _gather(readers: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    """Every fact by name; None and a sentence in `reasons` where its reader raises."""
    facts: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, read in readers.items():
        try:
            facts[name] = read()
        except (Unknown, OSError, KeyError) as error:
            facts[name] = None
            reasons[name] = str(error)
    return {**facts, "reasons": reasons}


def _governor(cpus_folder: Path, cpuset: Iterable[int]) -> str:
    """The frequency governors of the processors we may use, distinct, as "performance"."""
    files = [cpus_folder / f"cpu{cpu}/cpufreq/scaling_governor" for cpu in sorted(cpuset)]
    found = dict.fromkeys(path.read_text().strip() for path in files if path.exists())
    return str(_known(" + ".join(found) or None, "no frequency scaling in /sys, as in most virtual machines"))


def _turbo(cpus_folder: Path) -> bool:
    intel, other = cpus_folder / "intel_pstate/no_turbo", cpus_folder / "cpufreq/boost"
    if intel.exists():
        return not parse_switch(_read(intel))
    if other.exists():
        return parse_switch(_read(other))
    raise Unknown("/sys has no switch for it, as in most virtual machines")


def _gpu_models(folder: Path) -> list[str]:
    """One entry per NVIDIA GPU, in bus order."""
    texts = [_read(path) for path in sorted(folder.glob("*/information"))]
    models = [model for text in texts for model in _values(text, "Model")]
    return list(_known(models or None, "no NVIDIA driver is loaded, or it lists no GPU"))


def _gpu_driver(version_file: Path) -> str:
    if not version_file.exists():
        raise Unknown("no NVIDIA driver is loaded")
    return parse_nvidia_driver(_read(version_file))


def _gpu_driver_cuda(version_file: Path) -> str:
    """The newest CUDA that the driver runs, as "12.8"."""
    _gpu_driver(version_file)
    try:
        pynvml.nvmlInit()
        major, minor = divmod(pynvml.nvmlSystemGetCudaDriverVersion_v2(), 1000)
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise Unknown(f"NVML: {error}") from None
    return f"{major}.{minor // 10}"


def _numa_nodes(folder: Path) -> int:
    """How many parts the memory has that are nearer to some processors than to others."""
    return _known(len(list(folder.glob("node[0-9]*"))) or None, "/sys has no memory nodes")


def _container(root: Path) -> str:
    """Its kind as far as engines leave their marks: "docker", "podman"; "none" where there is no mark."""
    marks = {"docker": root / ".dockerenv", "podman": root / "run/.containerenv"}
    return next((kind for kind, mark in marks.items() if mark.exists()), "none")


def _cpuset() -> set[int]:
    if not hasattr(os, "sched_getaffinity"):
        raise Unknown(f"{platform.system()} does not tell")
    return os.sched_getaffinity(0)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}") from None


def _known(value: T | None, reason: str) -> T:
    if value is None:
        raise Unknown(reason)
    return value
