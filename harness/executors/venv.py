"""Runs workers in virtual environments on this machine: one per stack, made from its lock on first use and kept.

An environment has two layers, so that heavy packages survive changes of our code and two checkouts do not disturb each other:

    base/      everything the lock pins: made by pip, gigabytes, named by a hash of lock, Python and platform
    overlay/   worker and plugin code in a thin environment that reads on in its base: named by a hash of base and code
    bare/      an environment with nothing but pip: bases start as its copy, because making pip anew costs seconds

Nothing of the host's own dependencies is visible in either. Bases are never removed: a run may need an old one tomorrow.
"""

from __future__ import annotations

import compileall
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cache import explained
from harness.executors import pip, sources
from harness.executors.base import Ending, LaunchSpec, Progress, Provided, signal_words, worker_variables
from harness.executors.environments import is_whole, make_once, python_of, remove_unused, site_packages
from harness.executors.processes import LAUNCH_VARIABLE, end_launch, processes_of, run_tethered
from harness.model import Backend, HarnessError, Stack, Status, digest

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CC", "CXX", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""All that a worker inherits: what finds compilers, their libraries and devices. Above all not OMP_*, KMP_*, MKL_*, GOMP_* and
OPENBLAS_*, which change threads behind the frameworks' backs, caches from earlier runs, and HF_TOKEN."""

_OVERLAY_UNUSED_S = 14 * 24 * 3600.0
"""Overlays that nobody asked for in two weeks go: every change of code leaves one, and they are quick to make."""


class VenvExecutor:
    """Starts workers with the interpreters of cached environments."""

    name = "venv"

    def __init__(self, root: Path, vmstat: Path = Path("/proc/vmstat")) -> None:
        """Environments are kept below `root`. `vmstat` is where the kernel counts its out-of-memory kills."""
        self._root = root.absolute()
        self._vmstat = vmstat
        self._provided: dict[tuple[str, str], Provided] = {}  # by stack and device kind
        self._oom_kills: dict[str, int | None] = {}

    def provide(self, backend: Backend, progress: Progress, device: str = "cpu") -> Provided:
        """Make the stack's environment for a kind of device, or find it made; a second run at the same time waits.

        Raises HarnessError, with pip's last lines where it was pip that failed.
        """
        stack = backend.stack
        code = _Code(stack)
        with explained(f"make the environment of stack {stack.name} in {self._root}"):
            base, made_of = self._base(stack, device, progress)
            overlay = self._overlay(stack, code, base, progress)
        content = {**made_of, **code.facts}
        facts = {**content, "base": str(base), "folder": str(overlay)}
        provided = Provided(stack.name, digest(content), python_of(overlay), facts)
        self._provided[stack.name, device] = provided
        return provided

    def made(self, stack: Stack) -> Path | None:
        """Where the stack's packages are installed; None where `provide` would have to install them first. Makes nothing.

        Raises HarnessError where the stack's lock cannot be found.
        """
        folder, _ = self._base_place(stack, sources.lock_file(stack))
        return folder if is_whole(folder) else None

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ("-m", "harness.worker")) -> list[str]:
        """The argv. Notes the kernel's count of out-of-memory kills too, for `ending` to compare: ask just before the start."""
        self._oom_kills[launch.launch_id] = self._oom_count()
        return [str(self._provided[launch.backend.stack.name, launch.device].python), "-I", "-u", *arguments]

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        """The whole environment of the process: every cache lies in the launch's scratch folder, nothing goes online."""
        inherited = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        scratch = str(launch.scratch.absolute())
        return {"PATH": os.defpath, **inherited, LAUNCH_VARIABLE: scratch, **worker_variables(scratch)}

    def visible(self, launch: LaunchSpec, path: Path) -> str:  # noqa: ARG002 - the same for every launch here
        """The worker sees the host's paths."""
        return str(path.absolute())

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        """What the exit code says.

        The kernel counts its out-of-memory kills for the whole machine (those of cgroups included): another process's counts too,
        but only where this one ended by SIGKILL at the same time, which nobody but the kernel and `kill` should send.
        """
        if returncode >= 0:
            return Ending(Status.CRASHED, f"exited with code {returncode}")
        how = f"ended by {signal_words(-returncode)}"
        if -returncode == signal.SIGKILL and self._oom_killed_since_start(launch):
            return Ending(Status.OUT_OF_MEMORY, f"{how} from the kernel's out-of-memory killer")
        return Ending(Status.CRASHED, how)

    def hidden_ending(self, launch: LaunchSpec) -> Ending | None:  # noqa: ARG002 - the same for every launch here
        """None: the kernel's count is the whole machine's, and does not tell whose child was killed."""
        return None

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        """End the launch now, with all children, also those that left its process group."""
        end_launch(pid, launch.scratch.absolute())

    def survivors(self, launch: LaunchSpec) -> list[str]:
        """Processes that belong to the launch by anything that can be seen of them."""
        return processes_of(launch.folder.absolute())

    # --- layers -----------------------------------------------------------------------------------------------------

    def _base(self, stack: Stack, device: str, progress: Progress) -> tuple[Path, Mapping[str, Any]]:
        """The environment with the packages of the lock, and what it is made of."""
        lock = sources.lock_file(stack, device)
        folder, identity = self._base_place(stack, lock)

        def build(aside: Path) -> Mapping[str, Any]:
            progress(f"{stack.name}: making an environment from {lock.name}, once")
            shutil.copytree(self._bare(stack, progress), aside, symlinks=True, dirs_exist_ok=True)
            pip.install(aside, lock, stack.name, progress)
            return {"lock": stack.lock_for(device), **identity, "installed": _installed(aside)}

        return folder, make_once(folder, build, _waiting(stack, progress))

    def _base_place(self, stack: Stack, lock: Path) -> tuple[Path, Mapping[str, Any]]:
        """The folder of a stack's base, made or not, and the identity that names it."""
        identity = {"lock_sha256": sources.files_digest({"lock": lock}), **_python_facts()}
        return self._root / "base" / _folder_name(stack, identity), identity

    def _bare(self, stack: Stack, progress: Progress) -> Path:
        """An environment with nothing but pip."""
        facts = _python_facts()
        folder = self._root / "bare" / f"python-{digest(facts)[:16]}"

        def build(aside: Path) -> Mapping[str, Any]:
            lines: list[str] = []
            if run_tethered(Path(sys.executable), "venv", [str(aside)], lines.append, temporary=aside) != 0:
                raise HarnessError(
                    f"stack {stack.name}: `python -m venv` failed with {sys.executable}; on Debian install python3-venv. "
                    "Its last lines:" + "".join(f"\n  {line}" for line in lines[-12:])
                )
            return facts

        make_once(folder, build, _waiting(stack, progress))
        return folder

    def _overlay(self, stack: Stack, code: _Code, base: Path, progress: Progress) -> Path:
        """The environment with worker and plugin code, reading on in `base`, whose path is part of its identity."""
        identity = {"base": str(base), **code.facts}
        folder = self._root / "overlay" / _folder_name(stack, identity)

        def build(aside: Path) -> Mapping[str, Any]:
            venv.EnvBuilder(symlinks=True).create(aside)
            code.copy_to(site_packages(aside))
            _read_on(site_packages(aside), site_packages(base))
            return identity

        make_once(folder, build, _waiting(stack, progress))
        remove_unused(folder.parent, f"{_safe(stack.name)}-", _OVERLAY_UNUSED_S)
        return folder

    # --- out-of-memory kills ----------------------------------------------------------------------------------------

    def _oom_killed_since_start(self, launch: LaunchSpec) -> bool:
        before, now = self._oom_kills.get(launch.launch_id), self._oom_count()
        return before is not None and now is not None and now > before

    def _oom_count(self) -> int | None:
        try:
            match = re.search(r"^oom_kill (\d+)$", self._vmstat.read_text(), re.MULTILINE)
        except OSError:
            return None
        return int(match[1]) if match else None


class _Code:
    """Our code for one stack, found on the host."""

    def __init__(self, stack: Stack) -> None:
        worker = sources.worker_files()
        plugins = {package: sources.plugin_files(package, stack) for package in stack.packages}
        self._files = {**worker, **{name: path for files in plugins.values() for name, path in files.items()}}
        self.facts: Mapping[str, Any] = {
            "worker_sha256": sources.files_digest(worker),
            "plugin_sha256": {package: sources.files_digest(files) for package, files in plugins.items()},
            "plugin_versions": {package: sources.plugin_version(package) for package in plugins},
        }

    def copy_to(self, folder: Path) -> None:
        """Copy and compile, so that no launch pays for compiling and none writes into the environment."""
        for name, source in self._files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        compileall.compile_dir(folder, quiet=2)


def _read_on(site: Path, base_site: Path) -> None:
    """Let an environment see the packages of another, their own .pth files included, after its own."""
    # ASCII, as the encoding in which Python reads .pth files depends on the locale.
    (site / "harness-base.pth").write_text(f"import site; site.addsitedir({str(base_site)!a})\n", "ascii")


def _python_facts() -> dict[str, str]:
    return {"python": platform.python_version(), "platform": sysconfig.get_platform()}


def _installed(folder: Path) -> dict[str, str]:
    """Distribution -> version. More than the lock says: the same pin can be a CPU or a CUDA build."""
    found = importlib.metadata.distributions(path=[str(site_packages(folder))])
    return dict(sorted((distribution.name, distribution.version) for distribution in found))


def _folder_name(stack: Stack, identity: Mapping[str, Any]) -> str:
    return f"{_safe(stack.name)}-{digest(identity)[:16]}"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _waiting(stack: Stack, progress: Progress) -> Callable[[], None]:
    return lambda: progress(f"{stack.name}: waiting for another run that makes the same environment")
