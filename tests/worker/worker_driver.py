"""What the worker's tests share: a real worker process, and doubles for an operation and its clock."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.protocol import (
    Close,
    Command,
    Event,
    Import,
    Job,
    Memory,
    Open,
    Outputs,
    PhaseStarted,
    Round,
    WarmUp,
    decode_event,
    encode,
)
from harness.worker.api import Arrays
from harness.worker.surroundings import Surroundings

PATIENCE_S = 30
"""Far longer than anything here takes: a test that waits so long has failed."""

LIMIT_NS = 5_000_000_000
WARM_UP = WarmUp(
    window_calls=3,
    window_ns=0,
    tolerance=1e6,  # on a busy machine too
    limit_ns=LIMIT_NS,
    probe_tolerance=1e6,
    foreign_tolerance=1.0,
)
LATENCY = Round(0, "latency", settle_calls=1, settle_ns=0, calls=8, budget_ns=0, limit_ns=LIMIT_NS)
THROUGHPUT = Round(1, "throughput", settle_calls=2, settle_ns=0, calls=8, budget_ns=0, limit_ns=LIMIT_NS)
AFTER_IMPORT = (
    Open(),
    Outputs("before"),
    WARM_UP,
    LATENCY,
    THROUGHPUT,
    Outputs("after"),
    Memory(calls=2),
    Close(),
)
"""What a host says to a worker that has imported its runner, made short."""


SLOTS, BATCH, SEQUENCE = 8, 2, 4


def write_inputs(folder: Path) -> None:
    """Eight slots that differ, the last token of each masked."""
    ids = np.random.default_rng(0).integers(0, 1000, (SLOTS, BATCH, SEQUENCE))
    mask = np.ones_like(ids)
    mask[..., -1] = 0
    np.save(folder / "input_ids.npy", ids)
    np.save(folder / "attention_mask.npy", mask)


class WorkerProcess:
    """`python -I -u -m harness.worker`, started as an executor would."""

    def __init__(self, python: Path, log: Path) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [python, "-I", "-u", "-m", "harness.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={},
                start_new_session=True,
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def hear(self) -> Event | None:
        """The next event; None at the end of the conversation. A line that is no event fails the test."""
        line = self._lines.get(timeout=PATIENCE_S)
        return decode_event(line) if line else None

    def hear_until(self, phase: str) -> None:
        """Wait for the announcement of a phase."""
        while self.hear() != PhaseStarted(phase):
            pass

    def say(self, command: Command) -> None:
        self.say_raw(encode(command))

    def say_raw(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def converse(self, job: Job) -> list[Event]:
        """Say all that a host says, and return every event until the worker is gone."""
        self.start_conversation(job)
        return list(iter(self.hear, None))

    def start_conversation(self, job: Job) -> None:
        with contextlib.suppress(BrokenPipeError):
            for command in (Import(job), *AFTER_IMPORT):
                self.say(command)

    def leave(self) -> None:
        """Close the host's end of the conversation, as its death would."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        with contextlib.suppress(OSError):
            self.leave()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")


QUIET = Surroundings(probe_ns={"arithmetic": [1_000] * 10}, foreign_share=0.0, stops=[])
"""What a witness tells where nothing else goes on."""


T = TypeVar("T")


def watched(stretch: Callable[[], T]) -> tuple[T, Surroundings]:
    """A witness of a machine on which nothing ever happens."""
    return stretch(), QUIET


class ManualClock:
    """Nanoseconds that pass only where a test lets them."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, elapsed_ns: int) -> None:
        self.now_ns += elapsed_ns


class ClockedOperation:
    """An operation whose calls and waits take what a test says, on a manual clock; it records what was asked of it.

    `call_ns` and `wait_ns` get the number of the call, from 0; a wait takes its time once for each call since the last.
    """

    def __init__(
        self,
        clock: ManualClock,
        call_ns: Callable[[int], int] = lambda _: 0,
        wait_ns: Callable[[int], int] = lambda _: 0,
        begin_ns: int = 0,
        calls_per_begin: int | None = None,
    ) -> None:
        self.items: Mapping[str, int] = {"samples": 1}
        self.calls_per_begin = calls_per_begin
        self.begun: list[int] = []
        self.calls = 0
        self.waits = 0
        self.compiled = 0
        self.on_call: Callable[[], None] = lambda: None
        self._clock = clock
        self._call_ns = call_ns
        self._wait_ns = wait_ns
        self._begin_ns = begin_ns
        self._pending_ns = 0

    def compilations(self) -> int:
        return self.compiled

    def compile(self) -> list[tuple[str, int]]:
        return []

    def begin(self, slot: int) -> None:
        self.begun.append(slot)
        self._clock.advance(self._begin_ns)

    def call(self, mark: object = None) -> None:
        del mark
        self.on_call()
        self._clock.advance(self._call_ns(self.calls))
        self._pending_ns += self._wait_ns(self.calls)
        self.calls += 1

    def wait(self) -> None:
        self._clock.advance(self._pending_ns)
        self._pending_ns = 0
        self.waits += 1

    def outputs(self) -> Arrays:
        return {}
