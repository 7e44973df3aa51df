"""One worker process as the host sees it: commands in, last words out, and a name for every way it can end.

Reading happens in threads that block, so a waiting host uses no CPU while a worker measures.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, TypeVar

from harness import protocol
from harness.executors.base import Ending, Executor, LaunchSpec
from harness.model import CellError, Status

MAX_EVENT_BYTES = 64 << 20
"""Of one launch in all. A worker needs kilobytes; more is a fault, not data."""

MAX_LOG_BYTES = 8 << 20
"""What is kept of a worker's stderr; the rest is read and thrown away, so that it never blocks on a full pipe."""

GRACE_S = 10.0
"""How long a worker that has said its last word may take to exit."""

E = TypeVar("E")


class LaunchEndedError(Exception):
    """The launch is over without the answer that was asked for."""

    def __init__(self, status: Status, error: CellError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


class RunningLaunch:
    """A started worker. `send` a command and `receive` its answer, or `ask` for both at once."""

    def __init__(self, executor: Executor, spec: LaunchSpec, module: str = "harness.worker") -> None:
        """Start the process: the worker, or another module that holds such a conversation.

        Its stderr goes to `stderr.log` in the launch folder. Raises LaunchEndedError.
        """
        self.spec = spec
        self.argv = executor.command(spec, ("-m", module))
        self.stage = "start"
        self._executor = executor
        self._events: queue.Queue[bytes | Exception | None] = queue.Queue()
        try:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=executor.environment(spec),
                cwd=spec.folder,
                start_new_session=True,  # a Ctrl-C reaches the host alone; the host ends its workers itself
            )
        except OSError as error:
            raise LaunchEndedError(Status.FAILED, _error(error, "start")) from None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        log = spec.folder / "stderr.log"
        self._threads = [
            threading.Thread(target=_read_events, args=(self._process.stdout, self._events), daemon=True),
            threading.Thread(target=_keep_log, args=(self._process.stderr, log), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, command: protocol.Command, answer: type[E], timeout_s: float) -> E:
        """Send a command and return its answer. Raises LaunchEndedError."""
        self.send(command)
        return self.receive(answer, timeout_s)

    def send(self, command: protocol.Command) -> None:
        """Write a command. A worker that is gone is noticed by the next `receive`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(protocol.encode(command))
            self._process.stdin.flush()

    def receive(self, answer: type[E], timeout_s: float) -> E:
        """Wait for the last word of the command sent. Raises LaunchEndedError for any other ending, time-out included."""
        deadline = time.monotonic() + timeout_s
        while True:
            event = self._heard(deadline, timeout_s)
            if isinstance(event, answer):
                return event
            if not isinstance(event, protocol.PhaseStarted):
                raise self._misbehaved(f"answered {type(event).__name__} where {answer.__name__} was due")

    def await_phase(self, phase: str, timeout_s: float) -> None:
        """Wait until the worker says that it begins a phase, whatever it says before. Raises LaunchEndedError."""
        deadline = time.monotonic() + timeout_s
        while self.stage != phase:
            self._heard(deadline, timeout_s)

    def close(self) -> None:
        """Wait for a worker that has answered `Closed` to exit; a worker that lingers is killed. Idempotent.

        Raises LaunchEndedError where a child of it ran out of memory on the way: what it was to do may not have been done.
        """
        self._close_stdin()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._executor.kill(self.spec, self.pid)
            self._process.wait()
        self._executor.kill(self.spec, self.pid)  # children that outlived the worker
        self._join()
        if hidden := self._executor.hidden_ending(self.spec):
            raise LaunchEndedError(hidden.status, self._error_of(hidden))

    def end(self) -> None:
        """Kill worker and children now. Idempotent."""
        self._executor.kill(self.spec, self.pid)
        self._close_stdin()
        self._process.wait()
        self._join()

    def _heard(self, deadline: float, timeout_s: float) -> protocol.Event:
        """The next event, after which `stage` is right. Raises LaunchEndedError where the worker says that it failed."""
        event = self._next_event(deadline, timeout_s)
        if isinstance(event, protocol.PhaseStarted):
            self.stage = event.phase
        elif isinstance(event, protocol.Failed):
            self.end()
            raise self._ended(_status_of(event), _error_said(event, self.spec.backend.offered_by))
        return event

    def _next_event(self, deadline: float, timeout_s: float) -> protocol.Event:
        try:
            line = self._events.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            self.end()
            message = f"no answer within {timeout_s:g} s in {self.stage}; the worker was ended"
            raise self._ended(Status.TIMEOUT, CellError(type="timeout", message=message, stage=self.stage)) from None
        if line is None:
            raise self._died()
        try:
            if isinstance(line, Exception):
                raise line
            return protocol.decode_event(line)
        except protocol.ProtocolError as error:
            raise self._misbehaved(f"said what is no event: {error}") from None

    def _died(self) -> LaunchEndedError:
        """Stdout is at its end: the process is gone, or as good as gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        self.end()  # first, so that the log is whole
        ending = self._executor.ending(self.spec, self._process.returncode)
        last = last_line(self.spec.folder / "stderr.log")
        message = f"the worker {ending.message} in {self.stage}" + (f"; its last line: {last}" if last else "")
        return LaunchEndedError(ending.status, CellError(type=str(ending.status), message=message, stage=self.stage))

    def _ended(self, status: Status, error: CellError) -> LaunchEndedError:
        """What was first in time counts, and a child that ran out of memory comes before whatever that led to."""
        hidden = self._executor.hidden_ending(self.spec)
        if hidden is None or hidden.status is status:
            return LaunchEndedError(status, error)
        return LaunchEndedError(hidden.status, self._error_of(hidden, f"; then: {error.message}"))

    def _error_of(self, ending: Ending, more: str = "") -> CellError:
        return CellError(type=str(ending.status), message=f"the worker {ending.message}{more}", stage=self.stage)

    def _misbehaved(self, what: str) -> LaunchEndedError:
        self.end()
        error = CellError(type="ProtocolError", message=f"the worker {what}", stage=self.stage)
        return LaunchEndedError(Status.FAILED, error)

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(GRACE_S)


_ADVICE = "docker run --help"
"""With which Docker's client ends whatever it complains of: what it says before tells more."""


def last_line(log: Path) -> str:
    """The last telling line in a log, at most 200 characters; empty where there is none."""
    try:
        text = log.read_bytes()[-4096:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and _ADVICE not in line]
    return lines[-1][:200] if lines else ""


def _status_of(event: protocol.Failed) -> Status:
    return {"unsupported": Status.UNSUPPORTED, "out_of_memory": Status.OUT_OF_MEMORY}.get(event.reason, Status.FAILED)


def _error_said(event: protocol.Failed, plugin: str) -> CellError:
    """What the worker said; of mistakes that only the plugin's author can mend, whose plugin it is."""
    is_the_plugins = plugin and (event.stage == "import" or event.type == "ContractError")
    message = f"{plugin}: {event.message}" if is_the_plugins else event.message
    return CellError(type=event.type, message=message, stage=event.stage)


def _error(error: Exception, stage: str) -> CellError:
    return CellError(type=type(error).__name__, message=str(error), stage=stage)


def _read_events(stream: IO[bytes], events: queue.Queue[bytes | Exception | None]) -> None:
    """Pass lines on until the end; None says so. Line length and total are limited: a pipe must not fill the host's memory."""
    total = 0
    with stream:
        while line := stream.readline(protocol.MAX_LINE_BYTES + 1):
            total += len(line)
            if len(line) > protocol.MAX_LINE_BYTES or total > MAX_EVENT_BYTES:
                events.put(protocol.ProtocolError("wrote more to the conversation than the protocol allows"))
                break
            events.put(line)
    events.put(None)


def _keep_log(stream: IO[bytes], log: Path) -> None:
    kept = 0
    with stream, contextlib.suppress(OSError), log.open("wb") as file:
        while chunk := stream.read1(65536):  # type: ignore[attr-defined]
            if kept < MAX_LOG_BYTES:
                file.write(chunk)
                file.flush()
                kept += len(chunk)
    # A log that cannot be written must not block the worker: go on reading.
    with contextlib.suppress(OSError, ValueError):
        while stream.read1(65536):  # type: ignore[attr-defined]
            pass
