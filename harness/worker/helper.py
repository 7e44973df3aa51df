"""For runners: a helper, a process of its own that does what must be nowhere in the process that is measured.

What is deployed of an exported model is a session: 170 MiB for MiniLM. A process that has exported it as well is at 544 MiB and
has the threads of two frameworks. A helper is started, and has imported everything, while the runner is built: that time is
`import`, as in other backends. It ends when its input does, so it does not outlive the worker.

Each line of its stdin is {"step": NAME, "arguments": {...}}, each line of its stdout the answer: what the step returned, or
{"error": TEXT}, or {"unsupported": REASON}. The first answer, {}, comes unasked once everything is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TextIO

from harness.worker.api import Unsupported

Steps = Mapping[str, Callable[..., Mapping[str, Any] | None]]
"""By name, what a helper can be asked for: takes JSON values by keyword, returns JSON values by name, or None."""


class HelperError(Exception):
    """The helper raised, or died; the text names the exception and ends with its traceback."""


class Helper:
    """The runner's side."""

    def __init__(self, *arguments: str) -> None:
        """Start `python -I ARGUMENTS`, as "-m", "mine.export", and return when it has imported everything. Raises HelperError.

        That module's last lines are `if __name__ == "__main__": serve(STEPS)`.
        """
        argv = (sys.executable, "-I", *arguments)
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, step: str, **arguments: Any) -> Mapping[str, Any]:
        """What a step of the helper returned. Raises HelperError, and Unsupported where the step did."""
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
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        if "error" in answer:
            raise HelperError(answer["error"])
        return answer

    def _die_as_it_did(self) -> NoReturn:
        """A signal is passed on to this process, so that the host's conclusion (killed for memory?) is about the right one."""
        self.close()
        returncode = self._process.returncode
        if returncode < 0:
            os.kill(os.getpid(), -returncode)
        raise HelperError(f"the process exited with code {returncode} and said nothing; the log has the reason")


def serve(steps: Steps) -> NoReturn:
    """The helper's side: answer until the input ends, then end the process."""
    with _claim_stdout() as told:
        for answer in _answers(steps, sys.stdin):
            told.write(json.dumps(answer) + "\n")
            told.flush()
    os._exit(0)  # tearing PyTorch down would take longer (0.9 s) than exporting a small model


def _answers(steps: Steps, commands: TextIO) -> Iterator[Mapping[str, Any]]:
    yield {}
    for line in commands:
        command = json.loads(line)
        try:
            yield steps[command["step"]](**command["arguments"]) or {}
        except Unsupported as reason:
            yield {"unsupported": str(reason)}
        except Exception as error:
            yield {"error": f"{type(error).__name__}: {error}\n{traceback.format_exc()}"}


def _claim_stdout() -> TextIO:
    """The real stdout; whatever else is printed from now on goes to stderr."""
    mine = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return mine
