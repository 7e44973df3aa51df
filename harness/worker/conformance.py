"""`python -I -u -m harness.worker.conformance`: leads one runner through a launch and tells what is seen of it.

It speaks the worker's language (harness.protocol): the host says `Import`, and is answered with one `Seen` for each class of
`harness.worker.observations`, in their order, or with `Failed`. It judges nothing: `harness.testing` does, on the host, which
knows what the Backend promises.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.protocol import Event, Import, Job, PhaseStarted, ProtocolError, Seen
from harness.worker.api import Arrays, Operation, Runner
from harness.worker.arrays import read_inputs, slots_of, write_npz
from harness.worker.channel import EXIT_CLOSED, EXIT_FAILED, Channel, claim_descriptors
from harness.worker.checks import build_runner, facts_as_json
from harness.worker.coldstart import cold_start
from harness.worker.decoding import decode_outputs
from harness.worker.failure import failed
from harness.worker.memory import memory_pass
from harness.worker.observations import (
    OUTPUTS,
    Compared,
    Counted,
    Freed,
    Observation,
    Reshaped,
    Started,
    Told,
    Visited,
    Waited,
    Worked,
)
from harness.worker.processes import anonymous_bytes, mapped_bytes, peak_rss, threads_cpu_ns

WAITS = 9
"""Calls of which the median tells whether waiting is waiting: odd, and enough to outvote a few that were disturbed."""

WORK_NS = 200_000_000
"""How long threads are watched: long enough for many calls of a small model."""

MEMORY_CALLS = 2

now_ns = time.perf_counter_ns


class Examination:
    """One runner and what is seen of it; `phase` is what it is doing or did last."""

    def __init__(self, job: Job, say: Callable[[Event], None]) -> None:
        self.phase = "import"
        self._job = job
        self._say = say

    def observations(self) -> Iterator[Observation]:
        """Step by step. Raises whatever the runner raises."""
        self._announce("import")
        runner = build_runner(self._job)
        slots = slots_of(read_inputs(Path(self._job.inputs)))
        started = cold_start(runner, self._job, slots, self._announce, now_ns)
        operation = started.operation
        yield Started(
            stages=[list(stage) for stage in started.stages],
            reasons=dict(runner.not_applicable),
            elapsed_ns=started.elapsed_ns,
            items={name: int(count) for name, count in operation.items.items()},
            compilations=runner.compilations(),
        )
        yield Told(**facts_as_json(runner.facts()))
        self._announce("steady")
        yield _waited(operation)
        yield _visited(operation, len(slots))
        yield _worked(operation)
        self._announce("outputs")
        yield _compared(operation, len(slots), runner, self._job)
        self._announce("memory")
        yield _counted(operation, runner)
        self._announce("compile")
        yield _reshaped(runner, self._job, slots)
        del started, operation  # what is left of them is the runner's
        self._announce("close")
        yield _freed(runner, self._job)

    def _announce(self, phase: str) -> None:
        self.phase = phase
        self._say(PhaseStarted(phase))


def _timed_call(operation: Operation, slot: int) -> int:
    """Nanoseconds that a call and its wait take."""
    operation.begin(slot)
    started = now_ns()
    operation.call()
    operation.wait()
    return now_ns() - started


def _timed_outputs(operation: Operation) -> int:
    started = now_ns()
    operation.outputs()
    return now_ns() - started


def _waited(operation: Operation) -> Waited:
    taken = [(_timed_call(operation, 0), _timed_outputs(operation), _timed_outputs(operation)) for _ in range(WAITS)]
    call_ns, outputs_ns, again_ns = (list(column) for column in zip(*taken, strict=True))
    return Waited(call_ns, outputs_ns, again_ns)


def _visited(operation: Operation, slots: int) -> Visited:
    taken = [(_timed_call(operation, slot), _timed_call(operation, slot)) for slot in range(1, slots)]
    first_ns, second_ns = (list(column) for column in zip(*taken, strict=True))
    return Visited(first_ns, second_ns)


def _worked(operation: Operation) -> Worked:
    """With outputs taken from each call: one that is not waited for must not leave more and more of them under way."""
    before, all_before_ns = threads_cpu_ns(), time.process_time_ns()
    give_up_at_ns = now_ns() + WORK_NS
    while now_ns() < give_up_at_ns:
        _timed_call(operation, 0)
        operation.outputs()
    all_ns = time.process_time_ns() - all_before_ns  # of threads that have ended too
    busiest_ns = max(cpu_ns - before.get(thread, 0) for thread, cpu_ns in threads_cpu_ns().items())
    return Worked(round(all_ns / busiest_ns, 2))


def _compared(operation: Operation, slots: int, runner: Runner, job: Job) -> Compared:
    """Copies are made at once: what the runner gave may change under later calls, which is then seen too."""
    first = [_given_and_copied(operation, slot) for slot in range(slots)]
    given, kept = [outputs for outputs, _ in first], [copied for _, copied in first]
    whole = [decode_outputs(operation, slot) for slot in range(slots)] if job.operation == "decode" else kept
    _write_outputs(Path(job.folder) / OUTPUTS, whole)
    repeated = [_given_and_copied(operation, slot)[1] for slot in range(slots)]
    described = sorted({_description(outputs) for outputs in [*kept, *repeated]})
    compares = len(described) == 1
    return Compared(
        described=described,
        finite=all(bool(np.isfinite(array).all()) for outputs in kept for array in outputs.values()),
        repeat_difference=max(map(_difference, kept, repeated)) if compares else None,
        input_difference=min(_difference(kept[0], other) for other in kept[1:]) if compares else None,
        kept=compares and all(_difference(*pair) == 0 for pair in zip(given, kept, strict=True)),
        compilations=runner.compilations(),
    )


def _write_outputs(folder: Path, outputs: Sequence[Arrays]) -> None:
    """For the host, which has what they should be."""
    folder.mkdir()
    for slot, arrays in enumerate(outputs):
        write_npz(folder / f"slot-{slot}.npz", arrays)


def _given_and_copied(operation: Operation, slot: int) -> tuple[Arrays, Arrays]:
    _timed_call(operation, slot)
    given = operation.outputs()
    return given, {name: np.array(array) for name, array in given.items()}


def _description(outputs: Arrays) -> str:
    """As "logits: float32 (2, 24, 512)"."""
    return ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in sorted(outputs.items()))


def _difference(some: Arrays, others: Arrays) -> float:
    """The largest, over all values; those that are not finite count as 0."""
    return max(float(np.nan_to_num(np.abs(some[name] - others[name]), posinf=0).max()) for name in some)


def _counted(operation: Operation, runner: Runner) -> Counted:
    def calls() -> None:
        for _ in range(MEMORY_CALLS):
            _timed_call(operation, 0)

    read = memory_pass(runner, calls, peak_rss())
    return Counted(read.bytes, read.reasons)


def _reshaped(runner: Runner, job: Job, slots: Sequence[Arrays]) -> Reshaped:
    before = runner.compilations()
    row = [{name: np.ascontiguousarray(array[:1]) for name, array in slot.items()} for slot in slots]
    operation = runner.operation(job.operation, row)
    operation.compile()
    _timed_call(operation, 0)
    items = {name: int(count) for name, count in operation.items.items()}
    return Reshaped(items, before, runner.compilations())


def _freed(runner: Runner, job: Job) -> Freed:
    before = _held_bytes(job)
    runner.close()
    return Freed(before, _held_bytes(job))


def _held_bytes(job: Job) -> int:
    """Anonymous memory, garbage collected and trimmed, and mapped files: weights may be either, and mapped ones need not be
    resident to be held."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc's: gives the kernel back what it only keeps for later
        libc.malloc_trim(0)
    return anonymous_bytes() + mapped_bytes((job.checkpoint, job.folder, job.cache))


def examine(job: Job, say: Callable[[Event], None]) -> int:
    """Tell everything that is seen of a runner; the exit code."""
    examination = Examination(job, say)
    try:
        for observation in examination.observations():
            say(Seen(type(observation).__name__, dataclasses.asdict(observation)))
    except Exception as error:
        say(failed(error, examination.phase))
        return EXIT_FAILED
    return EXIT_CLOSED


def main() -> int:
    """Wait for `Import` and answer it."""
    channel = Channel(*claim_descriptors())
    command = channel.receive()
    if not isinstance(command, Import):
        raise ProtocolError(f"the command {command.kind!r} came where 'import' was due")
    return examine(command.job, channel.say)


if __name__ == "__main__":
    os._exit(main())  # as the worker does: a framework that aborts while it is torn down has no say
