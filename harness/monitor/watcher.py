"""The host's end of the monitor: starts it for a block, has it look at the edges of each round, ends it.

Whatever becomes of the monitor, the block goes on: a monitor that cannot start, hangs or dies leaves a reason.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter

from harness.monitor import log
from harness.monitor.log import Header

FILE = "monitor.jsonl"
"""The log, in a block's folder."""

ERRORS = "monitor-stderr.log"

ANSWER_S = 10.0
"""A monitor that has not looked within this time is given up: a driver that hangs must not hold up a run for longer."""

_HEADER = TypeAdapter(Header)


class Watcher:
    """A running monitor, or the reason why there is none."""

    def __init__(self) -> None:
        self.reason: str | None = "monitoring was off"
        """Why the monitor is not looking; None while it is."""
        self._process: subprocess.Popen[bytes] | None = None
        self._measures_energy = False

    @property
    def processes(self) -> list[int]:
        """The monitor's, where there is one: it keeps off the processors that are measured on."""
        return [self._process.pid] if self._process else []

    def start(self, folder: Path, interval_s: float, device: str) -> None:
        """Have the machine watched for cells of a device kind; the log goes to `folder`. Returns when the sensors are open."""
        folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-P", "-m", "harness.monitor", str(folder / FILE), str(interval_s), device]
        self.reason = None
        with (folder / ERRORS).open("wb") as errors:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,  # so that select tells of every answer
                start_new_session=True,  # a Ctrl-C reaches the host alone; the end of stdin ends the monitor
            )
        header = self._answer()
        if header:
            self._measures_energy = _HEADER.validate_json(header).measures_energy

    def look(self, name: str, edge: log.Edge) -> None:
        """Return when there is a sample at this edge of a stretch."""
        if self.reason is None:
            self._ask(f"{log.mark(name, edge)}\n".encode())

    @contextlib.contextmanager
    def over(self, name: str) -> Iterator[None]:
        """Look before and after."""
        self.look(name, "start")
        yield
        self.look(name, "end")

    def rest(self, seconds: float) -> None:
        """Watch the machine while nothing of ours runs on it; where no energy can be measured this takes no time."""
        if self.reason is None and self._measures_energy and seconds:
            with self.over(log.IDLE):
                time.sleep(seconds)

    def stop(self) -> None:
        """End the monitor; its log is complete then."""
        if not self._process:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, command: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended: the answer will tell
            self._process.stdin.write(command)
        self._answer()

    def _answer(self) -> bytes:
        """A line of the monitor's stdout. Where none comes, the monitor is given up, and the answer is empty."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        answer = self._process.stdout.readline() if ready else b""
        if not answer:
            self._give_up("it ended" if ready else f"it did not look within {ANSWER_S:g} s")
        return answer

    def _give_up(self, why: str) -> None:
        assert self._process is not None
        self._process.kill()
        self.reason = f"the monitor was given up: {why}; {ERRORS} in the block's folder may tell more"


@contextlib.contextmanager
def watching(folder: Path | None, interval_s: float, device: str) -> Iterator[Watcher]:
    """A watcher, running where there is a folder for its log, and ended however this is left."""
    watcher = Watcher()
    try:
        if folder is not None:
            watcher.start(folder, interval_s, device)
        yield watcher
    finally:
        watcher.stop()
