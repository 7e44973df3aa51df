"""Small trials on this machine for `harness doctor`: what is tried is what a run does, so that the answer is not a guess.

Nothing is left behind, and every trial has a time limit.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import engine
from harness.model import HarnessError

_WORK_TIMEOUT_S = 60.0  # a loaded or emulated machine, a compiler or Python on a network disk
_ANSWER_TIMEOUT_S = 2.0  # a daemon that hangs must not make us hang

_MODULE = "harness_trial"
_SOURCE = f"""\
#include <Python.h>
#include <omp.h>
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{_MODULE}"}};
PyMODINIT_FUNC PyInit_{_MODULE}(void) {{
    int threads = 0;
    #pragma omp parallel reduction(+ : threads)
    threads += omp_get_num_threads() > 0;
    return threads > 0 ? PyModule_Create(&module) : nullptr;
}}
"""
_FLAGS = ("-shared", "-fPIC", "-std=c++20", "-fopenmp")
"""Of those that Inductor gives (torch 2.13), the ones that can fail for want of a package or of a newer compiler."""

_ARITHMETIC = range(300_000)  # summing it takes about five milliseconds

_NOT_FOUND = "there is no such command"


@dataclass(frozen=True)
class Build:
    """How building and importing an extension module went."""

    compiler: str
    version: str | None  # its own words, first line; None: it does not start
    error: str | None  # one line; None: built and imported


@dataclass(frozen=True)
class Engine:
    """What Docker answers."""

    has_client: bool
    version: str | None  # the engine's; None: no answer
    error: str | None  # why not, in the client's words
    cannot_limit: tuple[str, ...] = ()  # its containers in, as "processors"


@dataclass(frozen=True)
class Disk:
    """Where a folder lies, or will once it is made."""

    folder: Path
    free_bytes: int
    error: str | None  # why nothing can be kept or run there; None: it can


@dataclass(frozen=True)
class Steadiness:
    """How alike repetitions of the same arithmetic were."""

    median_s: float
    spread: float  # from the 10th to the 90th percentile, over the median
    repetitions: int


def build_extension(folder: Path, include: Path) -> Build:
    """Build, as torch.compile does, a C++ module that includes Python.h from `include`, below `folder`, and import it.

    The compiler is Inductor's choice: what CXX names, else g++.
    """
    compiler = os.environ.get("CXX", "g++")
    version, error = _answer([compiler, "--version"], _WORK_TIMEOUT_S)
    if version is None:
        return Build(compiler, None, error)
    try:
        with tempfile.TemporaryDirectory(prefix=".harness-trial-", dir=nearest(folder)) as scratch:
            error = _build_and_import(compiler, include, Path(scratch))
    except OSError as refusal:
        error = f"{refusal.filename}: {refusal.strerror}"
    return Build(compiler, version.partition("\n")[0], error)


def ask_docker() -> Engine:
    """Ask the engine for its version, through whatever client is first on the path, and for what it cannot limit."""
    version, error = _answer(["docker", "version", "--format", "{{.Server.Version}}"], _ANSWER_TIMEOUT_S)
    return Engine(error != _NOT_FOUND, version, error, _cannot_limit() if version else ())


def bundled_pip(python: Path = Path(sys.executable)) -> tuple[str | None, str | None]:
    """The version of pip that `python -m venv` puts into an environment, or None and why there is none."""
    return _answer([str(python), "-I", "-c", "import venv, ensurepip; print(ensurepip.version())"], _WORK_TIMEOUT_S)


def read_disk(folder: Path) -> Disk:
    """Free space where a folder lies, and whether files can be written, and libraries loaded, from there."""
    place = nearest(folder)
    status = os.statvfs(place)
    return Disk(folder.absolute(), status.f_bavail * status.f_frsize, _refusal(place, status.f_flag))


def nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    absolute = folder.absolute()
    return next(each for each in (absolute, *absolute.parents) if os.access(each, os.F_OK))


def time_arithmetic(repetitions: int = 60, clock_ns: Callable[[], int] = time.perf_counter_ns) -> Steadiness:
    """Time the same arithmetic again and again, on one processor, in about a third of a second."""
    times_ns = []
    for _ in range(repetitions):
        started = clock_ns()
        sum(_ARITHMETIC)
        times_ns.append(clock_ns() - started)
    deciles, median_ns = statistics.quantiles(times_ns, n=10), statistics.median(times_ns)
    return Steadiness(median_ns / 1e9, (deciles[-1] - deciles[0]) / median_ns, repetitions)


def _cannot_limit() -> tuple[str, ...]:
    """Nothing is said of an engine that runs are refused for another reason."""
    try:
        return engine.Engine.connect().cannot_limit()
    except HarnessError:
        return ()


def _answer(argv: Sequence[str], timeout_s: float) -> tuple[str | None, str | None]:
    """What a command prints, or None and the most telling line of why it failed."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        return None, _NOT_FOUND
    except OSError as error:
        return None, f"it does not start: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"no answer within {timeout_s:g} s"
    if done.returncode != 0:
        return None, _telling_line(done.stderr) or f"it ended with exit code {done.returncode}"
    return done.stdout.strip(), None


def _telling_line(text: str) -> str:
    """The first line that speaks of an error, as compilers and linkers do, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = (line for line in lines if "error" in line.lower() or "cannot find" in line)
    return next(errors, lines[-1] if lines else "")


def _build_and_import(compiler: str, include: Path, scratch: Path) -> str | None:
    """None where it worked."""
    (scratch / f"{_MODULE}.cpp").write_text(_SOURCE)
    library = scratch / f"{_MODULE}.so"
    argv = [compiler, str(library.with_suffix(".cpp")), *_FLAGS, f"-I{include}", "-o", str(library), "-lgomp"]
    _, error = _answer(argv, _WORK_TIMEOUT_S)
    if error is None:
        code = f"import sys; sys.path.insert(0, {str(scratch)!r}); import {_MODULE}"
        _, error = _answer([sys.executable, "-I", "-S", "-c", code], _WORK_TIMEOUT_S)
    return error


def _refusal(place: Path, flags: int) -> str | None:
    if not place.is_dir():
        return f"{place} is a file"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    if flags & os.ST_NOEXEC:
        return f"{place} is mounted noexec, so no library can be loaded from there"
    return None
