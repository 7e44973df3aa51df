"""A runner that keeps every promise, and one for each way of breaking a single one. Named by the tests, run in processes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
from harness_fake.runner import FakeOperation, FakeRunner

from harness.worker.api import Arrays, Counters, Facts, Job, Mark, Stages, Unsupported

MIB = 1 << 20
WEIGHTS_BYTES = 64 * MIB
LEAKED: list[object] = []

RUNAWAY = (sys.executable, "-c", "import time; time.sleep(20)")


class HonestOperation(FakeOperation):
    """Its outputs are there when the call is done, like those of a device."""

    def outputs(self) -> Arrays:
        self._sleep_until_ready()
        return super().outputs()


class Honest(FakeRunner):
    """Sleeps, holds weights, and says so."""

    operation_class: ClassVar[type[FakeOperation]] = HonestOperation

    def load(self, job: Job) -> Stages:
        if job.dtype != "float32":
            raise Unsupported(f"dtype {job.dtype}: there is float32 alone")
        stages = super().load(job)
        started = time.perf_counter_ns()
        self._weights = self._read_weights()
        return [*stages, ("read", time.perf_counter_ns() - started)]

    def operation(self, name: str, slots: Sequence[Arrays]) -> FakeOperation:
        return self.operation_class(self, slots)

    def facts(self) -> Facts:
        told = super().facts()
        return replace(told, effective={**self._job.options, **told.effective})

    def memory(self, *, reset: bool = False) -> Counters:
        return {**super().memory(reset=reset), "weights_bytes": self._weights.nbytes}

    def close(self) -> None:
        super().close()
        del self._weights

    def _read_weights(self) -> np.ndarray:
        return np.ones(WEIGHTS_BYTES, np.uint8)


# --- waiting and computing ------------------------------------------------------------------------------------------


class HastyOperation(HonestOperation):
    """Its wait() leaves the work to whoever asks for outputs."""

    def wait(self) -> None:
        self._calls_waited_for = self._calls


class Hasty(Honest):
    operation_class = HastyOperation


class ForgetfulOperation(HonestOperation):
    """Takes its time for an input it has not seen, and none for one that it has."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays]) -> None:
        super().__init__(runner, slots)
        self._known: set[int] = set()

    def call(self, mark: Mark | None = None) -> None:
        if self._slot not in self._known:
            super().call(mark)
        self._known.add(self._slot)


class ResultKeeper(Honest):
    operation_class = ForgetfulOperation


class BusyOperation(HonestOperation):
    """Computes with three threads of its own, whatever was asked for."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays]) -> None:
        super().__init__(runner, slots)
        self._pool = ThreadPoolExecutor(3)

    def call(self, mark: Mark | None = None) -> None:
        list(self._pool.map(hashlib.sha256, [bytes(MIB)] * 6))  # it lets go of the GIL


class ManyThreads(Honest):
    operation_class = BusyOperation


# --- outputs and items ----------------------------------------------------------------------------------------------


class ReusingOperation(HonestOperation):
    """Hands over the buffer that the next call writes into."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays]) -> None:
        super().__init__(runner, slots)
        self._buffers: dict[str, np.ndarray] = {}

    def outputs(self) -> Arrays:
        for name, array in super().outputs().items():
            np.copyto(self._buffers.setdefault(name, np.empty_like(array)), array)
        return self._buffers


class BufferReuser(Honest):
    operation_class = ReusingOperation


class BatchCountingOperation(HonestOperation):
    """Takes samples for tokens."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays]) -> None:
        super().__init__(runner, slots)
        self.items = {"samples": len(slots[0]["input_ids"]), "tokens": len(slots[0]["input_ids"])}


class Miscounter(Honest):
    operation_class = BatchCountingOperation


# --- what runners tell ----------------------------------------------------------------------------------------------


class StuckCounter(Honest):
    """Has compiled or has not, but never twice."""

    def compilations(self) -> int:
        return min(self.compiled, 1)


class Leaky(Honest):
    """Somebody else still has its weights."""

    def close(self) -> None:
        LEAKED.append(self._weights)
        super().close()


class Mapping(Honest):
    """Its weights are a file's, hardly any of it read: what is not resident is held all the same."""

    def _read_weights(self) -> np.ndarray:
        return np.memmap(f"{self._job.cache}/weights", np.uint8, mode="w+", shape=WEIGHTS_BYTES)


class LeakyMapping(Mapping):
    def close(self) -> None:
        LEAKED.append(self._weights)
        super().close()


class Echo(Honest):
    """Runs whatever dtype it is asked for, in float32, and says that it is in effect."""

    def load(self, job: Job) -> Stages:
        stages = super().load(replace(job, dtype="float32"))
        self._job = job
        return stages


# --- what outlives them ---------------------------------------------------------------------------------------------


class Runaway(Honest):
    """Starts a child that nothing ties to the worker: another session, and an environment of its own."""

    def load(self, job: Job) -> Stages:
        nowhere = subprocess.DEVNULL
        argv = [*RUNAWAY, job.scratch]
        subprocess.Popen(argv, start_new_session=True, env={}, stdin=nowhere, stdout=nowhere, stderr=nowhere)
        return super().load(job)
