"""The judgements of `harness doctor`: each is pure, what was read in, one `Check` out.

*Missing* is what keeps the quick matrix from running; a *warning* is what makes numbers worse, or something else impossible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from harness.doctor.trials import Build, Disk, Engine, Steadiness
from harness.inventory import BackendEntry, ImageState, StackEntry
from harness.model import Backend, Protocol
from harness.spelling import listed

OLDEST_PYTHON = (3, 11)
"""As `requires-python` in pyproject.toml."""

GIB = 1 << 30
STACK_BYTES = 3 * GIB // 2
"""Disk that a stack takes while it is made: 0.9 to 1.3 GiB installed (CPU builds, 2026-11), and what pip downloads."""

CUDA_STACK_BYTES = 15 * GIB // 2
"""The same where pip finds a CUDA build of torch, without a GPU too: 4.9 GiB installed, 2.4 GiB downloaded (2026-11)."""

SPARE_BYTES = GIB // 2
"""Disk that a run takes beside that: checkpoint, inputs, references; raw samples, compiled kernels, exported graphs."""

WORKER_BYTES = GIB
"""Memory of one worker of the quick matrix: 0.35 to 0.86 GiB measured, with the children that compile (2026-11)."""

BUSY_LOAD = 0.25
"""Load average per processor above which others are measured too."""

COMPILER_PACKAGE = "g++"
"""A stack whose system packages name it compiles C++ at run time."""


class Finding(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str
    finding: Finding
    seen: str  # what was seen
    meaning: str  # what that means for runs
    remedy: str | None = None  # the command that mends it, or what to do where there is no such command
    facts: Mapping[str, Any] = field(
        default_factory=dict
    )  # what was read, as JSON values; None: unknown, `seen` says why


@dataclass(frozen=True)
class System:
    """What decides by which command something is mended."""

    is_debian: bool  # or made from it, as Ubuntu
    is_root: bool
    has_systemd: bool
    python: str  # "python3.11": the interpreter that environments are made with
    python_prefix: Path  # where it is installed
    include: Path  # where its headers should be

    def command(self, command: str) -> str:
        """A command that only the superuser may give."""
        return command if self.is_root else f"sudo {command}"

    def install(self, packages: str, otherwise: str) -> str:
        """How Debian's packages are installed; elsewhere, where they are called differently, what they hold."""
        if self.is_debian:
            return self.command(f"apt-get install {packages}")
        return f"install {otherwise} with your system's package manager"


# --- software -------------------------------------------------------------------------------------------------------


def python(version: Sequence[int], system: System) -> Check:
    """The interpreter of this command; environments are made with it too."""
    shown, oldest = (".".join(map(str, each)) for each in (version, OLDEST_PYTHON))
    found = partial(Check, "Python", seen=f"Python {shown}", facts={"version": shown})
    if tuple(version) < OLDEST_PYTHON:
        remedy = system.install(f"python{oldest} python{oldest}-venv", f"Python {oldest}")
        return found(Finding.MISSING, meaning=f"the harness needs {oldest} or newer", remedy=remedy)
    return found(Finding.OK, meaning="environments are made with it")


def venv(pip: str | None, error: str | None, system: System) -> Check:
    """`pip` is the version that new environments get; None: they cannot be made, because of `error`."""
    found = partial(Check, "venv and pip", facts={"pip": pip})
    if pip is None:
        remedy = system.install(f"{system.python}-venv", f"the modules venv and ensurepip of {system.python}")
        return found(Finding.MISSING, seen=str(error), meaning="no environment can be made", remedy=remedy)
    return found(Finding.OK, seen=f"pip {pip} comes with venv", meaning="environments can be made")


def backends(entries: Sequence[BackendEntry], problems: Sequence[str]) -> Check:
    """The installed backends; the one that makes the reference should be among them."""
    names, reference = [entry.backend.name for entry in entries], Protocol().reference
    facts = {"backends": names, "problems": list(problems)}
    found = partial(Check, "backends", seen="; ".join([listed(names), *problems]), facts=facts)
    remedy = "`make setup` in the harness's checkout installs its plugins"
    if not names:
        return found(Finding.MISSING, meaning="there is nothing to compare", remedy=remedy)
    if reference not in names:
        meaning = f"without {reference}, which makes the reference, no output can be judged: every cell is unverified"
        return found(Finding.WARNING, meaning=meaning, remedy=remedy)
    if problems:
        meaning = "what these plugins offer and cannot be used is missing"
        return found(Finding.WARNING, meaning=meaning, remedy="mend, reinstall or remove them")
    return found(Finding.OK, meaning="the quick matrix compares them")


def environments(stacks: Sequence[StackEntry]) -> Check:
    """Which stacks are made. One that is not yet is no fault: the first run makes it."""
    found = partial(Check, "environments", facts={each.stack.name: each.made is not None for each in stacks})
    problems = [each.problem for each in stacks if each.problem]
    if problems:
        remedy = "reinstall the plugin that offers the stack"
        return found(Finding.MISSING, seen="; ".join(problems), meaning="its backends cannot run", remedy=remedy)
    seen = listed(f"{each.stack.name} {'made' if each.made else 'not made yet'}" for each in stacks)
    if all(each.made for each in stacks):
        return found(Finding.OK, seen=seen, meaning="a run starts at once")
    each_takes = f"once, about {_gib(STACK_BYTES)} each"
    if any(map(_needs_torch, stacks)):
        each_takes += (
            f", or {_gib(CUDA_STACK_BYTES)} where pip's index has CUDA builds of torch, as its default one does"
        )
    meaning = f"the first run makes what is not, {each_takes}; pip must reach its package index then"
    return found(Finding.OK, seen=seen, meaning=meaning)


def _needs_torch(stack: StackEntry) -> bool:
    """Whether torch has yet to be installed for it: the same pin is a CPU build on one index and a CUDA build on another."""
    return stack.made is None and any(pin.name == "torch" for pin in stack.pins)


def compiler(build: Build, backends: Sequence[Backend], system: System) -> Check:
    """Whether torch.compile can build its kernels. Where no backend compiles C++ at run time, nobody misses it."""
    facts = {"compiler": build.compiler, "version": build.version, "error": build.error}
    found = partial(Check, "C++ compiler", facts=facts)
    if build.error is None:
        meaning = "torch.compile can build its kernels: a file that includes Python.h was built and imported"
        return found(Finding.OK, seen=str(build.version), meaning=meaning)
    found = partial(found, seen=f"{build.compiler}: {build.error}", remedy=_compiler_remedy(build, system))
    needing = [each.name for each in backends if COMPILER_PACKAGE in each.system_packages]
    if needing:
        return found(Finding.MISSING, meaning=f"torch.compile cannot build its kernels (backend {listed(needing)})")
    return found(Finding.WARNING, meaning="no installed backend needs it")


def _compiler_remedy(build: Build, system: System) -> str | None:
    """None where it is not for want of a package, as on a disk that cannot be written."""
    error = str(build.error)
    if build.version is None:
        return system.install("g++", "a C++ compiler (g++)")
    if "Python.h" in error and system.include.is_relative_to("/usr/include"):
        return system.install(f"{system.python}-dev", f"the headers of {system.python}")
    if "Python.h" in error:
        return f"reinstall {system.python} with its headers, from where it came ({system.python_prefix})"
    if re.search(r"omp\b|c\+\+20", error):
        return system.install("g++ libgomp1", "a C++ compiler that knows C++20 and OpenMP (g++ 10 or newer)")
    return None


# --- room -----------------------------------------------------------------------------------------------------------


def cache_disk(disk: Disk, stacks: Sequence[StackEntry]) -> Check:
    """Room for the stacks that are not made yet. Which builds of torch pip finds shows only when it is asked, online."""
    needed_bytes = sum(each.made is None for each in stacks) * STACK_BYTES + SPARE_BYTES
    remedy = "export HARNESS_CACHE=/a/folder/elsewhere"
    check = _disk("cache disk", disk, needed_bytes, remedy)
    with_cuda_bytes = needed_bytes + sum(map(_needs_torch, stacks)) * (CUDA_STACK_BYTES - STACK_BYTES)
    if check.finding is Finding.MISSING or disk.free_bytes >= with_cuda_bytes:
        return check
    meaning = f"{check.meaning}, and about {_gib(with_cuda_bytes)} where pip's index has CUDA builds of torch"
    remedy = f"set pip to an index that has CPU builds of torch (see `pip config list`), or {remedy}"
    return replace(check, finding=Finding.WARNING, meaning=meaning, remedy=remedy)


def results_disk(disk: Disk) -> Check:
    """Room for results, and for what workers write while they run."""
    return _disk("results disk", disk, SPARE_BYTES, "export BENCHMARK_RESULTS_DIR=/a/folder/elsewhere")


def _disk(name: str, disk: Disk, needed_bytes: int, remedy: str) -> Check:
    facts = {"folder": str(disk.folder), "free_bytes": disk.free_bytes, "needed_bytes": needed_bytes}
    found = partial(Check, name, facts=facts)
    if disk.error is not None:
        return found(Finding.MISSING, seen=disk.error, meaning="runs cannot work there", remedy=remedy)
    seen, needed = f"{_gib(disk.free_bytes)} free for {disk.folder}", f"about {_gib(needed_bytes)} are needed"
    if disk.free_bytes < needed_bytes:
        return found(Finding.MISSING, seen=seen, meaning=needed, remedy=remedy)
    return found(Finding.OK, seen=seen, meaning=f"enough: {needed}")


def memory(available_bytes: int, limit_bytes: int | None, backend_count: int) -> Check:
    """`limit_bytes` is the control group's, None where there is none; `available_bytes` heeds it."""
    needed_bytes, least_bytes = max(backend_count, 1) * WORKER_BYTES, WORKER_BYTES
    facts = {"available_bytes": available_bytes, "limit_bytes": limit_bytes, "needed_bytes": needed_bytes}
    limit = "" if limit_bytes is None else f", of a limit of {_gib(limit_bytes)}"
    found = partial(Check, "memory", seen=f"{_gib(available_bytes)} available{limit}", facts=facts)
    remedy = "end what else takes memory, or raise the limit of the container or job"
    if available_bytes < least_bytes:
        return found(Finding.MISSING, meaning=f"one worker takes up to about {_gib(least_bytes)}", remedy=remedy)
    together = f"the workers of a block take up to about {_gib(needed_bytes)} together"
    if available_bytes < needed_bytes:
        return found(Finding.WARNING, meaning=f"{together}; compare fewer at once with --only", remedy=remedy)
    return found(Finding.OK, meaning=f"enough: {together}")


# --- noise ----------------------------------------------------------------------------------------------------------


def processors(machine: Mapping[str, Any], limit: float | None) -> Check:
    """What workers may use. `limit` is the control group's, in processors' worth of time, None where there is none."""
    usable, cores = _usable(machine), machine["cpu_logical_cores"]
    names = ("cpu_logical_cores", "cpu_physical_cores", "cpuset", "cpu_smt")
    facts = {**{name: machine[name] for name in names}, "limit": limit, "reasons": _reasons(machine, names)}
    share = "" if limit is None else f", for the time of {limit:g}"
    found = partial(Check, "processors", seen=f"{usable} of {cores} processors may be used{share}", facts=facts)
    if limit is not None and limit < usable:
        meaning = "a share of time stalls threads in the middle of calls; a fixed set of processors does not"
        remedy = f"start the container with --cpuset-cpus in place of --cpus {limit:g}"
        return found(Finding.WARNING, meaning=meaning, remedy=remedy)
    if usable == 1:
        meaning = "worker, harness and everything else share it, which shows in the latencies"
        return found(Finding.WARNING, meaning=meaning, remedy="give the machine or container at least two")
    return found(Finding.OK, meaning=f"cells that name no threads use {usable}")


def governor(machine: Mapping[str, Any], system: System) -> Check:
    """What the processors' clock follows, where that can be read."""
    names = ("cpu_governor", "cpu_turbo")
    facts = {**{name: machine[name] for name in names}, "reasons": _reasons(machine, names)}
    found = partial(Check, "governor", facts=facts)
    seen = machine["cpu_governor"]
    if seen is None:
        reason = machine["reasons"]["cpu_governor"]
        return found(
            Finding.OK, seen=f"unknown: {reason}", meaning="changes of the clock cannot be told from other noise"
        )
    if seen == "performance":
        return found(Finding.OK, seen=seen, meaning="the clock does not follow the load")
    meaning = "the clock follows the load, so a latency depends on what ran before"
    remedy = system.command("cpupower frequency-set --governor performance")
    return found(Finding.WARNING, seen=seen, meaning=meaning, remedy=remedy)


def load(averages: Sequence[float], cores: int | None) -> Check:
    """The load averages over 1, 5 and 15 minutes, against all processors of the machine."""
    facts = dict(zip(("load_1_min", "load_5_min", "load_15_min"), averages, strict=True))
    on = "" if cores is None else f" on {cores} processors"
    found = partial(Check, "load", seen=f"load average {averages[0]:.2f} in the last minute{on}", facts=facts)
    if averages[0] > BUSY_LOAD * (cores or 1):
        meaning = "something else is running, and will be part of every number"
        return found(Finding.WARNING, meaning=meaning, remedy="see with `top` what it is, and end it or wait")
    return found(Finding.OK, meaning="the machine is quiet")


def steadiness(trial: Steadiness) -> Check:
    """How alike repetitions of the same arithmetic are, against what a warm-up has to reach."""
    tolerance = Protocol().warm_up_tolerance
    facts = {"median_s": trial.median_s, "spread": trial.spread, "repetitions": trial.repetitions}
    seen = f"the same arithmetic, {trial.repetitions} times, spreads over {trial.spread:.1%} of its median"
    found = partial(Check, "steadiness", seen=seen, facts=facts)
    if trial.spread > tolerance:
        meaning = f"differences between backends that are smaller are hard to see; aim for {tolerance:.0%}"
        remedy = "end other programs; on a shared or virtual machine, run more blocks"
        return found(Finding.WARNING, meaning=meaning, remedy=remedy)
    return found(Finding.OK, meaning="small differences between backends can be seen")


# --- devices and engines --------------------------------------------------------------------------------------------


def nvidia(machine: Mapping[str, Any], cards: int, has_device: bool, system: System) -> Check:
    """`cards` is what the PCI bus has; `has_device`, whether the driver's device is visible to this process."""
    names = ("gpu_driver", "gpu_models")
    facts = {**{name: machine[name] for name in names}, "cards": cards, "reasons": _reasons(machine, names)}
    found = partial(Check, "NVIDIA driver", facts=facts)
    driver, cannot = machine["gpu_driver"], "cells of device cuda cannot run; those of device cpu can"
    if driver is None:
        seen = f"{machine['reasons']['gpu_driver']}; the machine has {cards or 'no'} NVIDIA GPU"
        if not cards:
            return found(Finding.OK, seen=seen, meaning=cannot)
        return found(
            Finding.WARNING, seen=seen, meaning=cannot, remedy=system.install("nvidia-driver", "NVIDIA's driver")
        )
    seen = f"{driver}, {listed(machine['gpu_models'] or ())}"
    if not has_device:
        remedy = "start the container with --gpus all"
        return found(
            Finding.WARNING, seen=f"{seen}, but /dev/nvidiactl is not visible here", meaning=cannot, remedy=remedy
        )
    return found(Finding.OK, seen=seen, meaning="cells of device cuda can run where their stack is a CUDA build")


def docker(engine: Engine, backends: Sequence[BackendEntry], system: System) -> Check:
    """The container engine, and what it has of the backends' images. Without it, runs work all the same."""
    states = {each.backend.name: each.image.state for each in backends}
    facts = {
        "has_client": engine.has_client,
        "engine_version": engine.version,
        "error": engine.error,
        "cannot_limit": list(engine.cannot_limit),
        "images": states,
    }
    found = partial(Check, "Docker", facts=facts)
    meaning = "stacks run in virtual environments, not in containers"
    if engine.version is None:
        seen = str(engine.error) if engine.has_client else "there is no command `docker`"
        return found(Finding.WARNING, seen=seen, meaning=meaning, remedy=_docker_remedy(engine, system))
    seen = f"engine {engine.version} answers"
    if engine.cannot_limit:
        seen = f"{seen}, but cannot limit {listed(engine.cannot_limit)} of its containers"
        remedy = "delegate the control groups' controllers, as docs/docker.md tells under Rootless engines"
        return found(Finding.WARNING, seen=seen, meaning=meaning, remedy=remedy)
    waiting = [f"{name} ({state})" for name, state in states.items() if state is not ImageState.READY]
    if waiting:
        meaning = f"backends run in containers; a run builds, where it can, the images it needs: not ready are {listed(waiting)}"
        return found(Finding.OK, seen=seen, meaning=meaning)
    return found(Finding.OK, seen=seen, meaning="backends run in containers; every image is ready")


def _docker_remedy(engine: Engine, system: System) -> str:
    if not engine.has_client:
        return system.install("docker.io", "Docker Engine")
    if "permission denied" in str(engine.error).lower():
        return f"{system.command('usermod -aG docker $USER')}  # then log in anew"
    return system.command("systemctl start docker" if system.has_systemd else "service docker start")


# --- words ----------------------------------------------------------------------------------------------------------


def _usable(machine: Mapping[str, Any]) -> int:
    """Processors in a cpuset such as "0-3,8"; all of them where the system tells no cpuset."""
    runs = [run.partition("-") for run in (machine["cpuset"] or "").split(",") if run]
    return sum(int(last or first) - int(first) + 1 for first, _, last in runs) or machine["cpu_logical_cores"] or 1


def _reasons(machine: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Why those of these facts that are None are."""
    return {name: machine["reasons"][name] for name in names if name in machine["reasons"]}


def _gib(amount_bytes: int) -> str:
    return f"{amount_bytes / GIB:.1f} GiB"
