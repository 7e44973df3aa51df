"""Exports in a process of its own, so that PyTorch is nowhere in the process that is measured.

What is deployed is a session: 170 MiB for MiniLM. A process that has exported it as well is at 544 MiB and has the threads of two
frameworks. The exporter is started, and has imported everything, while the runner is built: that time is `import`, as in other
backends. It ends when its input does, so it does not outlive the worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

ARGV = (sys.executable, "-I", "-m", "harness_onnxruntime.export_process")


class ExportError(Exception):
    """The export process raised; the text names the exception and ends with its traceback."""


class Exporter:
    """The other side of `harness_onnxruntime.export_process`."""

    def __init__(self) -> None:
        """Start it and return when it has imported everything. Raises ExportError."""
        self._process = subprocess.Popen(ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, step: str, **arguments: Any) -> Mapping[str, Any]:
        """What a step of the process returned. Raises ExportError."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead: the missing answer says so
            self._process.stdin.write(json.dumps({"step": step, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End it; idempotent. Returns when it is gone: it must not disturb what comes next."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._die_as_it_did()
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise ExportError(answer["error"])
        return answer

    def _die_as_it_did(self) -> None:
        """A signal is passed on to this process, so that the host's conclusion (killed for memory?) is about the right one."""
        self.close()
        returncode = self._process.returncode
        if returncode < 0:
            os.kill(os.getpid(), -returncode)
        raise ExportError(f"the export process exited with code {returncode} and said nothing; its log has the reason")
