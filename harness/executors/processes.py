"""Starting processes that do not outlive the host, and ending launches with all their children."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

LAUNCH_VARIABLE = "HARNESS_LAUNCH"
"""Names the launch's scratch folder in the environment of its processes. Children inherit it, so that one which left the
process group, or whose parent died first, is found all the same."""

_KILL_LIMIT_S = 5.0
"""How long `end_launch` looks for survivors. A killed process may stay longer in the kernel (a GPU driver tidying up)."""

_KILL_POLL_S = 0.02

_TETHER = Path(__file__).with_name("tethered.py")


def run_tethered(
    python: Path, module: str, arguments: Sequence[str], on_line: Callable[[str], None], temporary: Path
) -> int:
    """Run `python -m module` to its end; its exit code. `on_line` is told each line of stdout and stderr as it comes.

    Whatever ends this call early (Ctrl-C in it, a kill of this process) ends the module and its children. What they then leave of
    temporary files, gigabytes of pip's, lies in the folder `temporary`, which somebody tidies, and not in /tmp.
    """
    argv = [str(python), "-I", "-u", "-X", "utf8", str(_TETHER), module, *arguments]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,  # a Ctrl-C reaches the host alone, and the tether kills no group but its own
    )
    with process:  # whose end closes the pipes, and with them the tether
        for line in process.stdout or ():
            on_line(line.rstrip())
        return process.wait()


def end_launch(pid: int, scratch: Path) -> None:
    """Kill the process group of `pid` and every process whose environment names `scratch`. Returns when none is left."""
    _end_group(pid)
    give_up_at = time.monotonic() + _KILL_LIMIT_S
    while _kill_marked(str(scratch)) and time.monotonic() < give_up_at:
        time.sleep(_KILL_POLL_S)


def processes_of(folder: Path) -> list[str]:
    """The processes that name a launch's folder in environment or arguments, or work in it, as "process 12 (sleep 60)".

    Looked for more widely than `end_launch` does: a child that shed its environment is none the less the launch's.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = process.cmdline()
            told = [process.cwd(), *process.environ().values(), *arguments]
            if process.pid != os.getpid() and any(str(folder) in text for text in told):
                found.append(f"process {process.pid} ({shlex.join(arguments)[:80]})")
    return found


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _kill_marked(mark: str) -> bool:
    """Whether any were found. A process may fork while we look: hence `end_launch` asks again until there are none."""
    found = False
    for process in _marked(mark):
        found = True
        with contextlib.suppress(psutil.Error):
            process.kill()
    return found


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # gone meanwhile, or another user's
            if process.pid != os.getpid() and process.environ().get(LAUNCH_VARIABLE) == mark:
                yield process
