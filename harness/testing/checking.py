"""From a backend to findings: one launch of `harness.worker.conformance` in its stack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.checkpoints import Checkpoint, identify, materialise
from harness.executors.base import Executor, LaunchSpec, Progress
from harness.inputs import Inputs, make_inputs
from harness.jobs import make_job
from harness.launch import LaunchEndedError, RunningLaunch
from harness.model import Backend, Cell, HarnessError, OptionValue
from harness.protocol import Import, Job, Seen
from harness.stacks import Stacks
from harness.support import refusal
from harness.testing.judging import Case, Finding, judge
from harness.worker import observations
from harness.worker.arrays import read_inputs, slots_of
from harness.worker.observations import Observation

BATCH_SIZE, SEQUENCE_LENGTH = 2, 24

WEIGHTY = "random:bert?hidden_size=256&intermediate_size=512&num_hidden_layers=1&vocab_size=65536"
"""70 MB of weights, enough to see whether they are freed, of which a call touches little: it compiles and runs quickly."""


def check_backend(
    backend: Backend,
    executor: Executor,
    checkpoint: Checkpoint,
    *,
    task: str = "feature-extraction",
    options: Mapping[str, OptionValue] | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    threads: int = 1,
    timeout_s: float = 600.0,
    progress: Progress = lambda _: None,
) -> list[Finding]:
    """One finding for each of `CHECKS`, in their order.

    One thread is asked for unless told otherwise: whoever ignores it uses more, on any machine. `timeout_s` is for each step.
    Raises HarnessError where nothing can be checked: the backend refuses the cell, or its stack cannot be made.
    """
    cell = Cell(
        model=checkpoint.identity,
        checkpoint=checkpoint.identity,
        task=task,
        batch_size=BATCH_SIZE,
        sequence_length=SEQUENCE_LENGTH,
        dtype=dtype,
        device=device,
        threads=threads,
        backend=backend.name,
        options={**{option.name: option.default for option in backend.options}, **(options or {})},
    )
    if reason := refusal(cell, backend, checkpoint.config) or backend.supports(cell, checkpoint.config):
        raise HarnessError(f"{backend.name} cannot be checked with {checkpoint.identity}: {reason}")
    executor.provide(backend, progress, device)
    inputs = make_inputs(cell, checkpoint, progress=progress)
    progress(f"{backend.name}: leading its runner through a launch")
    with tempfile.TemporaryDirectory(prefix="harness-conformance-") as folder:
        launch, job = _prepare(cell, backend, executor, checkpoint, inputs, Path(folder))
        seen, ending = _look(executor, launch, job, timeout_s)
    return judge(Case(backend, cell, slots_of(read_inputs(inputs.folder))[0], seen, ending))


def weighty_checkpoint(
    executor: Executor, backends: Mapping[str, Backend], progress: Progress = lambda _: None
) -> Checkpoint:
    """The checkpoint that checks are best made with, made once by the first of the backends whose stack can.

    Raises HarnessError where none can.
    """
    return materialise(identify(WEIGHTY), Stacks(executor, backends, progress).make_checkpoint, progress)


def assert_conforms(findings: Iterable[Finding]) -> None:
    """For tests. Raises AssertionError with the message of every check that failed."""
    failed = [f"{finding.check}: {finding.message}" for finding in findings if finding.passed is False]
    if failed:
        raise AssertionError("\n".join(failed))


def _prepare(
    cell: Cell, backend: Backend, executor: Executor, checkpoint: Checkpoint, inputs: Inputs, folder: Path
) -> tuple[LaunchSpec, Job]:
    """The launch in an empty folder, laid out as a measured one's."""
    scratch = folder / "scratch"
    cache = scratch / "reusable"
    cache.mkdir(parents=True)
    readable = (checkpoint.folder, inputs.folder)
    launch = LaunchSpec(folder.name, backend, folder, scratch, readable, cell.device)
    return launch, make_job(cell, launch, executor, *readable, cache)


def _look(
    executor: Executor, launch: LaunchSpec, job: Job, timeout_s: float
) -> tuple[dict[type[Any], Observation], str | None]:
    """What is seen, and why that is not all; None where it is."""
    seen: dict[type[Any], Observation] = {}
    try:
        running = RunningLaunch(executor, launch, "harness.worker.conformance")
        try:
            running.send(Import(job))
            for kind in observations.ORDER:
                seen[kind] = kind(**running.receive(Seen, timeout_s).values)
            running.close()
        finally:
            running.end()
    except LaunchEndedError as ended:
        return seen, f"{ended.status} in {ended.error.stage}: {ended.error.type}: {ended.error.message}"
    return seen, None
