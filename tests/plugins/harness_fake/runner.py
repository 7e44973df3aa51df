"""The fake backend in the worker: sleeps of known length, and every way to go wrong, on request.

A runner is not told which phase the worker is in, so the fake tells from what is asked of it: `warmup` begins with the first
call after all slots' outputs were given, `steady` is first noticed where a call is not waited for before the next one, that
is in a throughput round.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from harness.worker.api import RUNNERS_COUNTERS, Arrays, Counters, Facts, Job, Mark, Operation, Stages, Unsupported
from harness.worker.items import count_items

HIDDEN = 8
MIB = 1 << 20

LIBC = ctypes.CDLL(None)


def _fail(phase: str) -> NoReturn:
    raise RuntimeError(f"told to fail in {phase}")


def _refuse(phase: str) -> NoReturn:
    raise Unsupported(f"told to be unsupported in {phase}")


def _run_out_of_memory(phase: str) -> NoReturn:
    raise MemoryError(f"told to run out of memory in {phase}")


def _exit(phase: str) -> NoReturn:  # noqa: ARG001 - one signature for all
    sys.exit(3)


def _hang(phase: str) -> None:  # noqa: ARG001
    time.sleep(3600)


def _kill(phase: str) -> None:  # noqa: ARG001
    os.kill(os.getpid(), signal.SIGKILL)


def _devour(phase: str) -> NoReturn:
    taken = [bytearray(16 * MIB) for _ in range(64)]
    raise RuntimeError(f"took {len(taken) * 16} MiB in {phase} and was not stopped: the container should have a limit")


def _have_a_child_devour(phase: str) -> None:
    child = os.fork()
    if child == 0:
        _devour(phase)
    os.waitpid(child, 0)


ACCIDENTS: Mapping[str, Callable[[str], None]] = {
    "fail_in": _fail,
    "unsupported_in": _refuse,
    "out_of_memory_in": _run_out_of_memory,
    "exit_in": _exit,
    "hang_in": _hang,
    "kill_in": _kill,
    "devour_in": _devour,
    "child_devours_in": _have_a_child_devour,
}


class FakeRunner:
    """Options are the plugin's; one that is null or absent changes nothing."""

    def __init__(self) -> None:
        self.not_applicable: Mapping[str, str] = {}
        self.compiled = 0
        self.options: Mapping[str, Any] = {}
        self._operation: FakeOperation | None = None

    def load(self, job: Job) -> Stages:
        self._job = job
        self.options = {name: value for name, value in job.options.items() if value is not None}
        self.not_applicable = {
            phase: f"{phase}_ms is null" for phase in ("prepare", "compile") if f"{phase}_ms" not in self.options
        }
        self._compiled_file = Path(job.cache) / "compiled"
        self.was_compiled = self._compiled_file.exists()
        if self.was_compiled:
            self.not_applicable = {**self.not_applicable, "compile": "an earlier launch compiled it"}
        self.enter("load")
        return [("weights", self.sleep("load_ms"))]

    def prepare(self) -> Stages:
        self.enter("prepare")
        return [("export", self.sleep("prepare_ms"))] if "prepare_ms" in self.options else []

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        from harness_fake.generation import OPERATIONS  # which is made of this module's

        if name != "forward" and name not in OPERATIONS:
            raise Unsupported(f"the fake backend has no operation {name}")
        self._operation = FakeOperation(self, slots) if name == "forward" else OPERATIONS[name](self, slots, self._job)
        return self._operation

    def facts(self) -> Facts:
        effective = {
            "device": self._job.device,
            "dtype": self.options.get("report_dtype", self._job.dtype),
            "threads": self.options.get("report_threads", self._job.threads),
            "eval_mode": True,
            "inference_mode": True,
            "compile_cache": "warm" if self.was_compiled else "cold",
            **self.options,
        }
        return Facts(effective=effective, versions={"numpy": np.__version__}, details={"hidden": HIDDEN})

    def keep_compiled(self) -> None:
        """For a launch that gets a copy of the cache folder."""
        if not self.options.get("forget_compiled"):
            self._compiled_file.touch()
            link = self._compiled_file.with_name("link")
            if not link.is_symlink():  # every operation of a launch comes here
                link.symlink_to("/etc/hostname")  # which nobody must follow out there

    def compilations(self) -> int:
        return self.compiled

    def memory(self, *, reset: bool = False) -> Counters:
        if reset:
            self.enter("memory")
        unknown = dict.fromkeys(RUNNERS_COUNTERS, "the fake backend computes nothing")
        counters = self._operation.counters if self._operation else {}
        return {**unknown, "allocated_bytes": MIB, "peak_allocated_bytes": 3 * MIB, **counters}

    def close(self) -> None:
        self.enter("close")

    def enter(self, phase: str) -> None:
        """Have the accident that the options hold for this phase, if any."""
        for option, accident in ACCIDENTS.items():
            if self.options.get(option) == phase:
                accident(phase)

    def sleep(self, option: str) -> int:
        """Sleep for so many milliseconds; return how long it really took, in nanoseconds."""
        started = time.perf_counter_ns()
        time.sleep(self.options.get(option, 0) / 1000)
        return time.perf_counter_ns() - started


class FakeOperation:
    """Forward: `last_hidden_state`, float32 of (batch, sequence, 8), a pure function of the inputs."""

    calls_per_begin: int | None = None
    counters: Counters = MappingProxyType({})
    """Of memory, its own."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays]) -> None:
        self.items: Mapping[str, int] = count_items(slots[0])
        self._runner = runner
        self._options = runner.options
        self._slots = slots
        self._slot = 0
        self._given: Arrays | None = None
        self._calls = 0
        self._calls_waited_for = 0
        self._outputs_given = 0
        self._ready_at_s = 0.0

    def compile(self) -> Stages:
        self._runner.enter("compile")
        compiles = "compile_ms" in self._options and not self._runner.was_compiled
        stages = [("compile", self._compile())] if compiles else []
        self._runner.keep_compiled()
        if self._options.get("first_call_in_compile"):
            started = time.perf_counter_ns()
            self.begin(0)
            self.call()
            self.wait()
            stages.append(("first_call", time.perf_counter_ns() - started))
        return stages

    def begin(self, slot: int) -> None:
        self._slot = slot
        self._given = None

    def transfer(self, arrays: Arrays) -> None:
        self._given = arrays

    def call(self, mark: Mark | None = None) -> None:
        self._enter_phase()
        self._calls += 1
        _print_garbage(self._options.get("garbage", 0))
        if self._options.get("recompile_always") or self._options.get("recompile_at") == self._calls:
            self._compile()
        if self._options.get("stop_at") == self._calls:
            _be_stopped()
        self._ready_at_s = max(self._ready_at_s, time.monotonic()) + self._call_s()
        if not self._options.get("asynchronous"):
            self._sleep_until_ready()

    def wait(self) -> None:
        self._calls_waited_for = self._calls
        self._sleep_until_ready()

    def outputs(self) -> Arrays:
        self._runner.enter("outputs")
        self._outputs_given += 1
        wrong = self._options.get("wrong")
        values = last_hidden_state(self._slots[0] if wrong == "cached" else self._given or self._slots[self._slot])
        is_second_time = self._outputs_given > len(self._slots)
        if wrong == "values" or (wrong == "after" and is_second_time):
            values += 1
        if wrong == "nan" or (wrong == "nan_after" and is_second_time):
            values[0, 0, 0] = np.nan
        return {"last_hidden_state": values[..., :-1] if wrong == "shape" else values}

    def _enter_phase(self) -> None:
        if self._calls == 0:
            self._runner.enter("first_call")
        elif self._calls > self._calls_waited_for:
            self._runner.enter("steady")
        elif self._outputs_given >= len(self._slots):
            self._runner.enter("warmup")

    def _compile(self) -> int:
        self._runner.compiled += 1
        return self._runner.sleep("compile_ms")

    def _call_s(self) -> float:
        growth = 1 + self._options.get("drift", 0.0) * (self._calls - 1)
        return float(self._options.get("call_ms", 1.0) / 1000 * growth)

    def _sleep_until_ready(self) -> None:
        time.sleep(max(self._ready_at_s - time.monotonic(), 0))


def last_hidden_state(inputs: Arrays) -> npt.NDArray[np.float32]:
    """float32 of (batch, sequence, 8): sines of the token ids, zero where the attention mask is."""
    ids = inputs["input_ids"].astype(np.float64)[..., np.newaxis] + 1
    mask = inputs.get("attention_mask", np.ones_like(inputs["input_ids"]))[..., np.newaxis]
    return (np.sin(ids * np.arange(1, HIDDEN + 1) / 100) * mask).astype(np.float32)


def _be_stopped() -> None:
    """By a child, which alone can continue it; as a shell's job control or a debugger does."""
    with subprocess.Popen(["/bin/sh", "-c", f"kill -STOP {os.getpid()}; sleep 1.2; kill -CONT {os.getpid()}"]):
        pass


def _print_garbage(kilobytes: int) -> None:
    """Half as Python's print, half as C's printf, both to descriptor 1."""
    if kilobytes:
        half = "#" * (kilobytes * 512 - 1)
        print(half, flush=True)  # noqa: T201 - the point of it
        LIBC.printf(b"%s\n", half.encode())
        LIBC.fflush(None)
