"""An executor with nothing to provide: workers run with this interpreter, which has harness, beside the plugins of the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.executors.base import Ending, LaunchSpec, Progress, Provided, worker_variables
from harness.executors.processes import processes_of
from harness.model import Backend, Status

HERE = Path(__file__).parent
PLUGINS = HERE.parent / "plugins"


class HereExecutor:
    """Starts processes that see `harness_fake` and `wrong_runners`."""

    name = "here"

    def provide(self, backend: Backend, progress: Progress, device: str = "cpu") -> Provided:
        return Provided(backend.stack.name, "none", Path(sys.executable), {})

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ("-m", "harness.worker")) -> list[str]:
        return [sys.executable, "-u", *arguments]

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        return {**worker_variables(str(launch.scratch)), "PYTHONPATH": f"{PLUGINS}{os.pathsep}{HERE}"}

    def visible(self, launch: LaunchSpec, path: Path) -> str:
        return str(path)

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        return Ending(Status.CRASHED, f"exited with code {returncode}")

    def hidden_ending(self, launch: LaunchSpec) -> Ending | None:
        return None

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def survivors(self, launch: LaunchSpec) -> list[str]:
        return processes_of(launch.folder)
