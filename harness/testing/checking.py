"""From a backend to findings: one launch of `harness.worker.conformance` in its stack, and what is seen from outside."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import parity
from harness import reference as references
from harness.block import BlockContext, PreparedCell, Reference
from harness.checkpoints import Checkpoint, identify, materialise
from harness.executors.base import Executor, LaunchSpec, Progress
from harness.inputs import Inputs, make_inputs
from harness.jobs import make_job
from harness.launch import LaunchEndedError, RunningLaunch
from harness.model import Backend, Cell, HarnessError, Hashes, OptionValue, Protocol
from harness.plugins import PluginError, Plugins, own_refusal
from harness.protocol import Hello, Import, Imported, Job, Open, Ready, Seen
from harness.stacks import StackError, Stacks
from harness.support import refusal
from harness.tasks import GENERATION, GENERATION_TASKS, TOKEN_MAKERS
from harness.testing.declared import declared, loaded
from harness.testing.judging import NOT_COME_TO_IT, Case, Finding, Unjudged, judge
from harness.testing.killing import KILL_IN, killed
from harness.testing.outside import Asked, Declared, Killed, Loaded, Paired, Sight
from harness.worker import observations
from harness.worker.arrays import read_inputs, slots_of
from harness.worker.observations import Observation

BATCH_SIZE, SEQUENCE_LENGTH, NEW_TOKENS = 2, 24, 4

WEIGHTY = "random:bert?hidden_size=256&intermediate_size=512&num_hidden_layers=1&vocab_size=65536"
"""70 MB of weights, enough to see whether they are freed, of which a call touches little: it compiles and runs quickly."""

WEIGHTY_DECODER = "random:gpt2?n_embd=512&n_layer=1&vocab_size=16384"
"""The same for operations of generation: 46 MB."""

IMPOSSIBLE_DTYPE = "float13"
"""No framework has it: a runner that says it is in effect says what it was asked for."""

_LED = "led"
"""The folder of the launch that is led through everything."""


def check_installed(
    name: str,
    plugins: Plugins,
    executor: Executor,
    *,
    model: str | None = None,
    operation: str = "forward",
    options: Mapping[str, OptionValue] | None = None,
    device: str = "cpu",
    kill_in: Sequence[str] = KILL_IN,
    timeout_s: float = 600.0,
    progress: Progress = lambda _: None,
) -> list[Finding]:
    """Of an installed backend, with all that is installed beside it: `check_backend` with the plugin and the reference.

    `model` is a source as a matrix writes it; one of random weights where none is given. Raises HarnessError where nothing can be
    checked.
    """
    backend = plugins.named(name)
    weighty = WEIGHTY_DECODER if operation in GENERATION else WEIGHTY
    dtypes = backend.dtypes.get(device, ("float32",))
    return check_backend(
        backend,
        executor,
        _checkpoint(model or weighty, executor, plugins.backends, progress),
        plugin=plugins.modules[name],
        reference=plugins.backends.get(Protocol().reference),
        kill_in=kill_in,
        operation=operation,
        task=_task(backend, operation),
        options=options,
        dtype="float32" if "float32" in dtypes else dtypes[0],
        device=device,
        timeout_s=timeout_s,
        progress=progress,
    )


def _task(backend: Backend, operation: str) -> str:
    """One that the operation is for, and the backend runs where it runs any."""
    fitting = GENERATION_TASKS if operation in GENERATION else ("feature-extraction", *backend.tasks)
    return next((task for task in fitting if task in backend.tasks), fitting[0])


def check_backend(
    backend: Backend,
    executor: Executor,
    checkpoint: Checkpoint,
    *,
    plugin: str | None = None,
    reference: Backend | None = None,
    kill_in: Sequence[str] = KILL_IN,
    operation: str = "forward",
    task: str = "feature-extraction",
    options: Mapping[str, OptionValue] | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    threads: int = 1,
    timeout_s: float = 600.0,
    progress: Progress = lambda _: None,
) -> list[Finding]:
    """One finding for each of `CHECKS`, in their order.

    `plugin` is the module that offers the backend, `reference` the backend whose outputs are the right ones; where they are not
    given, those checks have no verdict. In each phase of `kill_in` a launch of its own is killed. One thread is asked for unless
    told otherwise: whoever ignores it uses more, on any machine. `timeout_s` is for each step. Raises HarnessError where nothing
    can be checked: the backend refuses the cell, or its stack cannot be made.
    """
    cell = Cell(
        model=checkpoint.identity,
        checkpoint=checkpoint.identity,
        task=task,
        operation=operation,
        new_tokens=NEW_TOKENS if operation in TOKEN_MAKERS else None,
        batch_size=BATCH_SIZE,
        sequence_length=SEQUENCE_LENGTH,
        dtype=dtype,
        device=device,
        threads=threads,
        backend=backend.name,
        options={**{option.name: option.default for option in backend.options}, **(options or {})},
    )
    if reason := refusal(cell, backend, checkpoint.config) or _own_refusal(cell, backend, checkpoint):
        raise HarnessError(
            f"{backend.name} cannot be checked with {checkpoint.identity}: {reason}; choose another model, operation or device"
        )
    executor.provide(backend, progress, device)
    inputs = make_inputs(cell, checkpoint, progress=progress)
    with tempfile.TemporaryDirectory(prefix="harness-conformance-") as folder:
        subject = _Subject(backend, cell, executor, checkpoint, inputs, Path(folder), timeout_s, progress)
        return judge(_seen(subject, plugin, reference, kill_in))


def _own_refusal(cell: Cell, backend: Backend, checkpoint: Checkpoint) -> str | None:
    """The backend's own reason. Raises HarnessError where it is asked and does not answer."""
    try:
        return own_refusal(cell, backend, checkpoint.config)
    except PluginError as fault:
        raise HarnessError(f"{fault}; mend it: it is to return why the cell cannot run, or None") from fault


def weighty_checkpoint(
    executor: Executor, backends: Mapping[str, Backend], progress: Progress = lambda _: None
) -> Checkpoint:
    """The checkpoint that checks are best made with, made once by the first of the backends whose stack can.

    Raises HarnessError where none can.
    """
    return _checkpoint(WEIGHTY, executor, backends, progress)


def conforms(findings: Iterable[Finding]) -> bool:
    """Whether no check failed. One without a verdict is no failure."""
    return not _failed(findings)


def assert_conforms(findings: Iterable[Finding]) -> None:
    """For tests. Raises AssertionError with the message of every check that failed."""
    if failed := _failed(findings):
        raise AssertionError("\n".join(f"{finding.check}: {finding.message}" for finding in failed))


def _failed(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.passed is False]


def _checkpoint(source: str, executor: Executor, backends: Mapping[str, Backend], progress: Progress) -> Checkpoint:
    return materialise(identify(source), Stacks(executor, backends, progress).make_checkpoint, progress)


# --- looking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Subject:
    """What is looked at, with all that a launch of it needs."""

    backend: Backend
    cell: Cell
    executor: Executor
    checkpoint: Checkpoint
    inputs: Inputs
    folder: Path  # of the folders of its launches
    timeout_s: float  # of each step
    progress: Progress

    def launch(self, name: str) -> tuple[LaunchSpec, Job]:
        """A launch in an empty folder, laid out as a measured one's."""
        folder = self.folder / name
        scratch = folder / "scratch"
        cache = scratch / "reusable"
        cache.mkdir(parents=True)
        readable = (self.checkpoint.folder, self.inputs.folder)
        launch_id = f"{self.folder.name}-{name}"
        launch = LaunchSpec(launch_id, self.backend, folder, scratch, readable, self.cell.device)
        return launch, make_job(self.cell, launch, self.executor, *readable, cache)

    def asked_for(self, **changes: Any) -> _Subject:
        """The same, in a cell that is changed."""
        return replace(self, cell=self.cell.model_copy(update=changes))

    def doing(self, what: str) -> None:
        self.progress(f"{self.backend.name}: {what}")


def _seen(subject: _Subject, plugin: str | None, reference: Backend | None, kill_in: Sequence[str]) -> Case:
    """Look at everything. What there was no look at, has the reason."""
    seen, ending = _led(subject)
    looks: Mapping[type[Any], Callable[[], Sight]] = {
        Declared: lambda: declared(subject.backend, subject.cell),
        Loaded: lambda: _loaded(plugin, subject),
        Asked: lambda: _asked_too_much(subject, ending),
        Paired: lambda: _paired(subject, reference, ending),
        Killed: lambda: _killed(subject, kill_in, ending),
    }
    unseen: dict[type[Any], str] = {}
    for kind, look in looks.items():
        try:
            seen[kind] = look()
        except Unjudged as reason:
            unseen[kind] = str(reason)
    slot = slots_of(read_inputs(subject.inputs.folder))[0]
    return Case(subject.backend, subject.cell, slot, seen, ending, unseen)


def _led(subject: _Subject) -> tuple[dict[type[Any], Observation | Sight], str | None]:
    """What is seen in a launch that is led through everything, and why that is not all; None where it is."""
    subject.doing("leading its runner through a launch")
    launch, job = subject.launch(_LED)
    seen: dict[type[Any], Observation | Sight] = {}
    try:
        running = RunningLaunch(subject.executor, launch, "harness.worker.conformance")
        try:
            running.send(Import(job))
            for kind in observations.ORDER:
                seen[kind] = kind(**running.receive(Seen, subject.timeout_s).values)
            running.close()
        finally:
            running.end()
    except LaunchEndedError as ended:
        return seen, f"{ended.status} in {ended.error.stage}: {ended.error.type}: {ended.error.message}"
    return seen, None


def _loaded(plugin: str | None, subject: _Subject) -> Loaded:
    if plugin is None:
        raise Unjudged("which module offers the backend was not told")
    return loaded(plugin, subject.backend.stack)


def _asked_too_much(subject: _Subject, ending: str | None) -> Asked:
    """The worker itself is asked, as by a run: import, then the cold start."""
    _go_on_after(ending)
    subject.doing("asking for what there is not")
    launch, job = subject.asked_for(dtype=IMPOSSIBLE_DTYPE).launch("asked-too-much")
    try:
        running = RunningLaunch(subject.executor, launch)
        try:
            running.receive(Hello, subject.timeout_s)
            running.ask(Import(job), Imported, subject.timeout_s)
            ready = running.ask(Open(), Ready, subject.timeout_s)
        finally:
            running.end()
    except LaunchEndedError as ended:
        return Asked(IMPOSSIBLE_DTYPE, ended.error.message, {})
    return Asked(IMPOSSIBLE_DTYPE, None, ready.facts["effective"])


def _killed(subject: _Subject, phases: Sequence[str], ending: str | None) -> Killed:
    _go_on_after(ending)
    subject.doing("killing launches")
    return killed(subject.executor, subject.launch, phases, subject.timeout_s)


def _go_on_after(ending: str | None) -> None:
    if ending:
        raise Unjudged(NOT_COME_TO_IT)


# --- the reference --------------------------------------------------------------------------------------------------


def _paired(subject: _Subject, reference: Backend | None, ending: str | None) -> Paired:
    _go_on_after(ending)
    if reference is None:
        raise Unjudged(f"there is no {Protocol().reference} to compare with: install harness-pytorch")
    expected = _reference(subject, reference)
    found = parity.read_outputs(subject.folder / _LED / observations.OUTPUTS, subject.cell.inputs.slots)
    return Paired(parity.judge(expected, found, subject.cell.dtype, "before"))


def _reference(subject: _Subject, backend: Backend) -> Sequence[parity.Outputs]:
    """The reference's outputs, made once and kept as those of runs are. Raises Unjudged."""
    cell = references.reference_cell(subject.cell, backend)
    if reason := refusal(cell, backend, subject.checkpoint.config):
        raise Unjudged(f"{backend.name} makes no reference here: {reason}")
    subject.doing(f"comparing with {backend.name}")
    try:
        provided = Stacks(subject.executor, {}, subject.progress).provide(backend, cell.device)
    except StackError as fault:
        raise Unjudged(f"{backend.name} makes no reference here: {fault}") from None
    hashes = Hashes(key=cell.key, protocol_hash="", stack_hash=provided.stack_hash, host_hash="")
    prepared = PreparedCell(cell, backend, hashes, subject.checkpoint, subject.inputs)
    found = references.obtain(prepared, _context(subject), cell.operation)
    if found.outputs is None:
        raise Unjudged(str(found.reason))
    return found.outputs


def _context(subject: _Subject) -> BlockContext:
    """For a launch of which nothing is kept but its outputs."""
    return BlockContext(
        executor=subject.executor,
        protocol=Protocol(phase_timeout_seconds=subject.timeout_s),
        reference=Reference(None, "it is being made"),
        folder=lambda _key, launch_id: subject.folder / launch_id,
        keep=lambda _record: None,
        observe=lambda _cell, _event: None,
        doing=subject.progress,
    )
