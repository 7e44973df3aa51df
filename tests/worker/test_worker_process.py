"""The real worker, as a process, in an environment without any of the host's dependencies."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_driver import LATENCY, PATIENCE_S, WorkerProcess

from harness.protocol import (
    MAX_LINE_BYTES,
    PROTOCOL_VERSION,
    Closed,
    Event,
    Failed,
    Hello,
    Import,
    Imported,
    Job,
    MemoryRead,
    OutputsWritten,
    PhaseStarted,
    Ready,
    Samples,
    WarmedUp,
    encode,
)
from harness.worker.channel import EXIT_CLOSED, EXIT_FAILED, EXIT_HOST_GONE

MakeJob = Callable[..., Job]

ANSWERS = [
    Hello,
    Imported,
    Ready,
    OutputsWritten,
    WarmedUp,
    Samples,
    Samples,
    OutputsWritten,
    MemoryRead,
    Closed,
]
"""What a worker says when all goes well, beside its phases."""


BEFORE_WARM_UP = 9
"""Calls made by then: the first one, and one per slot for the outputs."""

WINDOWS = range(9)
"""Calls of the warm-up of a steady backend: three windows of three."""


def last_words(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, PhaseStarted)]


def phases(events: list[Event]) -> list[str]:
    return [event.phase for event in events if isinstance(event, PhaseStarted)]


def test_gives_each_command_one_answer_and_exits_0(worker: WorkerProcess, make_job: MakeJob) -> None:
    events = worker.converse(make_job())
    assert [type(event) for event in last_words(events)] == ANSWERS
    assert events[0] == Hello(PROTOCOL_VERSION, worker.process.pid, platform.python_version())
    assert worker.exit_code() == EXIT_CLOSED


def test_announces_each_phase_once_before_it_begins(worker: WorkerProcess, make_job: MakeJob) -> None:
    events = worker.converse(make_job())
    cold_start = ["load", "prepare", "compile", "first_call"]
    assert phases(events) == ["import", *cold_start, "outputs", "warmup", "steady", "outputs", "memory", "close"]


@pytest.mark.parametrize("module", ["pluggy", "pydantic", "yaml", "docker", "huggingface_hub", "harness.model"])
def test_the_environment_of_these_tests_lacks_what_a_worker_must_not_need(bare_python: Path, module: str) -> None:
    done = subprocess.run([bare_python, "-I", "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in done.stderr


# --- prints ---------------------------------------------------------------------------------------------------------


def test_prints_of_python_and_c_go_to_the_log_and_not_into_the_conversation(
    worker: WorkerProcess, make_job: MakeJob
) -> None:
    events = worker.converse(make_job(garbage=64))
    assert [type(event) for event in last_words(events)] == ANSWERS
    assert worker.log.stat().st_size > 20 * 64 * 1024


def test_a_child_process_can_neither_read_commands_nor_write_events(worker: WorkerProcess, make_job: MakeJob) -> None:
    events = worker.converse(make_job("odd_runners:Talkative"))
    assert [type(event) for event in last_words(events)] == ANSWERS
    log = worker.log.read_text()
    assert "a framework greets its users" in log
    assert "its native part" in log
    assert "the child read ''" in log


# --- stops ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_stopped_in_a_call_tells_so_by_the_signal_that_continues_it_and_by_the_call(
    worker: WorkerProcess, make_job: MakeJob
) -> None:
    stopped = BEFORE_WARM_UP + len(WINDOWS) + LATENCY.settle_calls + 3
    events = worker.converse(make_job(stop_at=stopped))
    latency, throughput = (event for event in events if isinstance(event, Samples))
    assert latency.stops[0] == "the process was stopped and continued (SIGCONT)"
    assert latency.stops[1].startswith("a call took 1.")
    assert throughput.stops == []


# --- endings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["load", "first_call", "steady", "close"])
def test_a_runner_that_exits_ends_the_process_without_a_last_word(
    worker: WorkerProcess, make_job: MakeJob, phase: str
) -> None:
    events = worker.converse(make_job(exit_in=phase))
    assert phases(events)[-1] == phase
    assert not isinstance(events[-1], Failed | Closed)
    assert worker.exit_code() == 3


@pytest.mark.parametrize("phase", ["compile", "outputs", "memory"])
def test_a_runner_that_is_killed_ends_the_process_without_a_last_word(
    worker: WorkerProcess, make_job: MakeJob, phase: str
) -> None:
    events = worker.converse(make_job(kill_in=phase))
    assert phases(events)[-1] == phase
    assert not isinstance(events[-1], Failed | Closed)
    assert worker.exit_code() == -9


def test_a_runner_that_raises_gets_one_last_word_and_the_exit_code_says_so(
    worker: WorkerProcess, make_job: MakeJob
) -> None:
    events = worker.converse(make_job(fail_in="compile"))
    assert [type(event) for event in last_words(events)] == [Hello, Imported, Failed]
    assert worker.exit_code() == EXIT_FAILED


def test_the_end_of_stdin_ends_an_idle_worker(worker: WorkerProcess) -> None:
    worker.hear()
    worker.leave()
    assert worker.exit_code() == EXIT_HOST_GONE


@pytest.mark.parametrize("phase", ["load", "first_call", "warmup", "close"])
def test_the_end_of_stdin_ends_a_worker_that_hangs(worker: WorkerProcess, make_job: MakeJob, phase: str) -> None:
    worker.start_conversation(make_job(hang_in=phase))
    worker.hear_until(phase)
    worker.leave()
    assert worker.process.wait(5) == EXIT_HOST_GONE


def test_a_worker_that_nobody_listens_to_ends(bare_python: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [str(bare_python), "-I", "-u", "-m", "harness.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writing) as process:
        os.close(writing)
        assert process.wait(PATIENCE_S) == EXIT_HOST_GONE


def test_an_idle_worker_uses_no_cpu(worker: WorkerProcess, make_job: MakeJob) -> None:
    worker.say(Import(make_job()))
    while not isinstance(worker.hear(), Imported):
        pass
    time.sleep(0.1)  # its answer is here; let it go back to waiting
    before = _cpu_ticks(worker.process.pid)
    time.sleep(0.5)
    assert _cpu_ticks(worker.process.pid) - before <= 1


# --- commands that are none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [b"run\n", b'{"kind": "dance"}\n', b"\xff\n", b'{"kind": "round"}\n', b"x" * (MAX_LINE_BYTES + 1)],
    ids=["text", "unknown", "not UTF-8", "incomplete", "too long"],
)
def test_a_line_that_is_no_command_gets_a_last_word(worker: WorkerProcess, line: bytes) -> None:
    worker.say_raw(line)
    hello, last = worker.hear(), worker.hear()
    assert isinstance(hello, Hello)
    assert isinstance(last, Failed)
    assert last.type == "ProtocolError"
    assert worker.exit_code() == EXIT_FAILED


def test_a_last_word_fits_a_line_however_much_the_exception_has_to_say(
    worker: WorkerProcess, make_job: MakeJob
) -> None:
    last = worker.converse(make_job("odd_runners:LongWinded"))[-1]
    assert isinstance(last, Failed)
    assert last.message.startswith("begin ")
    assert last.message.endswith(" end fake")
    assert "characters left out" in last.traceback
    assert len(encode(last)) < MAX_LINE_BYTES


def _cpu_ticks(pid: int) -> int:
    """Of the kernel's clock, 10 ms each: the finest it tells."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
