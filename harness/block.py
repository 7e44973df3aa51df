"""One block: one launch of every cell of a group, measured together.

The order is fixed by docs/methodology.md: all workers start and import in parallel; each alone loads, compiles, has its outputs
judged and warms up; then rounds of all launches interleave, outputs are judged again, memory is read in a pass of its own.
A launch that ends early leaves its record and the block goes on without it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from harness import accuracy, cores, disturbance, parity, protocol
from harness.checkpoints import Checkpoint
from harness.cores import Division
from harness.disturbance import Pass
from harness.executors.base import Executor, LaunchSpec
from harness.inputs import Inputs
from harness.jobs import differences, make_job, requested
from harness.launch import LaunchEndedError, RunningLaunch
from harness.model import (
    AccuracyRecord,
    Backend,
    Cell,
    CellError,
    CompileRecord,
    HarnessError,
    Hashes,
    LaunchRecord,
    ParityRecord,
    Protocol,
    RoundRecord,
    Stage,
    Status,
    WarmUpRecord,
)
from harness.monitor.log import round_name
from harness.monitor.watcher import Watcher, watching
from harness.told import compile_ledger, compile_records, round_record, unsettled, warm_up_record

NS = 1_000_000_000
MEMORY_CALLS = 3
"""Calls of the memory pass: enough for an allocator to show its peak, few enough to cost nothing."""

Observe = Callable[[Cell, protocol.Event], None]


@dataclass(frozen=True)
class PreparedCell:
    """A cell with everything a launch of it needs, on the host's disk."""

    cell: Cell
    backend: Backend
    hashes: Hashes
    checkpoint: Checkpoint
    inputs: Inputs
    warm_cache: Path | None = None  # what a warm launch gets a copy of; None: its cache starts empty
    windows: accuracy.Windows | str = "no accuracy was asked for"  # texts that it is told by, or why it is not told
    eos_token_ids: Sequence[int] = ()  # each ends a row of its generation; empty: nothing does


@dataclass(frozen=True)
class Reference:
    """Outputs of every slot that a group is judged against, or why there are none."""

    outputs: Sequence[parity.Outputs] | None
    reason: str | None = None


@dataclass(frozen=True)
class Schedule:
    """How the launches of a block share the machine, and why, where it is not the usual way."""

    kind: Literal["interleaved", "sequential"] = "interleaved"
    reason: str | None = None


@dataclass(frozen=True)
class BlockContext:
    """What the launches of a block share."""

    executor: Executor
    protocol: Protocol
    reference: Reference
    folder: Callable[[str, str], Path]  # (key, launch id) -> launch folder
    keep: Callable[[LaunchRecord], None]  # puts a finished launch on disk
    observe: Observe
    doing: Callable[[str], None]
    schedule: Schedule = Schedule()
    block_folder: Callable[[str], Path] | None = (
        None  # block id -> where its monitor writes; None: nothing is monitored
    )
    watcher: Watcher = field(default_factory=Watcher)  # of the block under way


def run_block(cells: Sequence[PreparedCell], context: BlockContext, index: int) -> list[LaunchRecord]:
    """Measure one block and return one record per cell, in the cells' order; each is on disk when its launch ends.

    A cell may stand in it more than once, to be compared with itself. Where the schedule is sequential, each launch ends before the
    next begins, in a drawn order. On KeyboardInterrupt (or any other exception) all workers are ended, unfinished launches are
    kept as `interrupted`, and the exception goes on.
    """
    block_id = uuid.uuid4().hex[:12]
    with _watched(context, block_id, cells[0].cell.device) as watched:
        return _run_turns(cells, watched, block_id, index)


@contextlib.contextmanager
def _watched(context: BlockContext, block_id: str, device: str) -> Iterator[BlockContext]:
    """The context with a monitor at work, that has seen the idle machine."""
    settings = context.protocol
    folder = context.block_folder(block_id) if settings.monitor and context.block_folder else None
    with watching(folder, settings.monitor_interval_seconds, device) as watcher:
        watcher.rest(settings.idle_seconds)
        yield replace(context, watcher=watcher)


def _run_turns(cells: Sequence[PreparedCell], context: BlockContext, block_id: str, index: int) -> list[LaunchRecord]:
    keys = [prepared.cell.key for prepared in cells]
    records: dict[int, LaunchRecord] = {}
    for positions in _turns(len(cells), context, index):
        launches = [Launch(cells[position], context, block_id, index, keys) for position in positions]
        _measure_together(launches, context, index)
        records |= zip(positions, (launch.record for launch in launches), strict=True)
    return [records[position] for position in range(len(cells))]


def _turns(cells: int, context: BlockContext, index: int) -> list[list[int]]:
    """Positions of the cells that are measured side by side, turn after turn."""
    positions = list(range(cells))
    if context.schedule.kind == "interleaved":
        return [positions]
    random.Random(f"{context.protocol.seed}/{index}").shuffle(positions)
    return [[position] for position in positions]


def _measure_together(launches: Sequence[Launch], context: BlockContext, index: int) -> None:
    block = _Block(launches, context, index)
    try:
        block.measure()
    except BaseException:
        block.interrupt()
        raise


class _Block:
    def __init__(self, launches: Sequence[Launch], context: BlockContext, index: int) -> None:
        self.launches = launches
        self._context = context
        self._index = index

    def measure(self) -> None:
        self._each("starting", Launch.start)
        self._each("importing", Launch.request_import)
        self._each("importing", Launch.await_import)
        self._each("cold start", Launch.open)
        self._each("warming up", Launch.warm_up)
        self._rounds()
        self._each("checking outputs again", Launch.judge_after)
        self._each("reading memory", Launch.read_memory)
        self._each("closing", Launch.close)

    def interrupt(self) -> None:
        """End every worker first: keeping the records may fail (a full disk), ending must not."""
        unfinished = self._running()
        for launch in unfinished:
            launch.kill()
        for launch in unfinished:
            with contextlib.suppress(HarnessError, OSError):
                launch.abandon()

    def _running(self) -> list[Launch]:
        return [launch for launch in self.launches if not launch.is_over]

    def _each(self, what: str, step: Callable[[Launch], None]) -> None:
        for launch in self._running():
            self._context.doing(f"block {self._index + 1}: {launch.cell.label}: {what}")
            _attempt(launch, step)

    def _rounds(self) -> None:
        """Pass after pass, those that something disturbed again; the host keeps off the processors that are measured on."""
        settings = self._context.protocol
        threads = max(launch.cell.threads for launch in self.launches)
        division = cores.divide(threads, os.sched_getaffinity(0))
        operation = self.launches[0].cell.operation  # equal for all: it is part of the workload
        with cores.aside(division.host, [os.getpid(), *self._context.watcher.processes]):
            for pass_ in disturbance.passes(settings, operation, self._rounds_so_far):
                self._pass(pass_, division)
        launches = self._running()
        judged = disturbance.judged([launch.rounds for launch in launches], settings)
        for launch, rounds in zip(launches, judged, strict=True):
            launch.keep_rounds(rounds)

    def _rounds_so_far(self) -> list[Sequence[RoundRecord]]:
        return [launch.rounds for launch in self._running()]

    def _pass(self, pass_: Pass, division: Division) -> None:
        again = "" if pass_.repeats is None else f", as pass {pass_.repeats + 1} was disturbed"
        order = disturbance.order(pass_, len(self.launches), self._context.protocol, self._index)
        for launch in [self.launches[position] for position in order]:
            if not launch.is_over:
                what = f"{pass_.mode}, pass {pass_.index + 1}{again}"
                self._context.doing(f"block {self._index + 1}: {launch.cell.label}: {what}")
                _attempt(launch, lambda running: running.round(pass_, division))


def _attempt(launch: Launch, step: Callable[[Launch], None]) -> None:
    try:
        step(launch)
    except LaunchEndedError as ended:
        launch.end(ended.status, ended.error)


@dataclass
class _Findings:
    """What a launch has told so far: the fields of its record that are filled on the way."""

    import_ns: int | None = None
    ready: protocol.Ready | None = None
    produced_tokens: list[int] = field(default_factory=list)
    parity: list[ParityRecord] = field(default_factory=list)
    accuracy: AccuracyRecord | None = None
    warm_up: WarmUpRecord | None = None
    rounds: list[RoundRecord] = field(default_factory=list)
    ledger: list[CompileRecord] = field(default_factory=list)
    processors: dict[str, Any] = field(default_factory=dict)  # who had which while rounds ran
    memory: protocol.MemoryRead | None = None


class Launch:
    """One cell's launch: a worker, led through the steps, and what it has told."""

    def __init__(
        self, prepared: PreparedCell, context: BlockContext, block_id: str, block_index: int, companions: Sequence[str]
    ) -> None:
        self.cell = prepared.cell
        self._prepared = prepared
        self._context = context
        self._block_id = block_id
        self._block_index = block_index
        self._companions = [key for key in companions if key != prepared.cell.key]
        self._retried = False
        self._record: LaunchRecord | None = None
        self._running: RunningLaunch | None = None
        self._new_process()

    @property
    def folder(self) -> Path:
        """The launch folder of the process under way."""
        return self._spec.folder

    @property
    def is_over(self) -> bool:
        return self._record is not None

    @property
    def rounds(self) -> Sequence[RoundRecord]:
        """Those so far."""
        return self._findings.rounds

    @property
    def record(self) -> LaunchRecord:
        assert self._record is not None, "the launch has not ended"
        return self._record

    # --- steps, in order --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._running = RunningLaunch(self._context.executor, self._spec)

    def request_import(self) -> None:
        hello = self._process.receive(protocol.Hello, self._patience_s)
        if hello.protocol_version != protocol.PROTOCOL_VERSION:
            raise self._refused(hello.protocol_version)
        self._process.send(protocol.Import(job=self._job()))

    def await_import(self) -> None:
        imported = self._process.receive(protocol.Imported, self._patience_s)
        self._findings.import_ns = imported.import_ns
        self._observe(imported)

    def open(self) -> None:
        """The cold start, alone on the machine, and the outputs judged before any clock starts.

        The first launch of a cell is asked for accuracy too: answers are the same in all of them, which parity sees to.
        """
        self.cold_start()
        self._judge("before")
        if self._block_index == 0:
            self._findings.accuracy = self._accuracy(self._prepared.windows)

    def cold_start(self) -> None:
        ready = self._process.ask(protocol.Open(), protocol.Ready, self._patience_s)
        self._findings.ready = ready
        self._observe(ready)
        if ready.inputs_sha256 != self._prepared.inputs.sha256:
            raise LaunchEndedError(
                Status.FAILED, self._error("InputsDiffer", "the worker read other inputs than were made")
            )

    def warm_up(self) -> None:
        """Call until steady. A launch that does not settle gets one fresh process; then it is timed as `unstable`."""
        if self._warmed_up() or self._retried:
            return
        self._retried = True
        self._process.end()
        self._new_process()
        for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.open):
            step(self)
        self._warmed_up()

    def round(self, pass_: Pass, division: Division) -> None:
        """This launch's part of a pass, on the processors that are its own meanwhile."""
        settings = self._context.protocol
        command = protocol.Round(
            index=len(self._findings.rounds),
            mode=pass_.mode,
            settle_calls=settings.settle_calls,
            settle_ns=_ns(settings.settle_seconds),
            calls=settings.round_calls,
            budget_ns=_ns(settings.round_seconds),
            limit_ns=_ns(settings.round_limit_seconds),
            cpus=list(division.workers),
            bind=settings.bind_threads,
        )
        with self._context.watcher.over(round_name(self._spec.launch_id, command.index)):
            samples = self._process.ask(command, protocol.Samples, self._patience_s + settings.round_limit_seconds)
        self._note_round(samples, pass_, division)
        self._observe(samples)

    def keep_rounds(self, rounds: Sequence[RoundRecord]) -> None:
        """The same rounds, judged."""
        self._findings.rounds = list(rounds)

    def judge_after(self) -> None:
        self._judge("after")

    def read_memory(self) -> None:
        memory = self._process.ask(protocol.Memory(calls=MEMORY_CALLS), protocol.MemoryRead, self._patience_s)
        self._findings.memory = memory
        self._observe(memory)

    def close(self) -> None:
        self._close_process()
        status, error = self._verdict()
        self.end(status, error)

    def hand_over(self, folder: Path) -> None:
        """End well, and leave caches and artefacts in `folder`: of the launch that fills what warm ones start from."""
        self._close_process()
        shutil.copytree(self._cache, folder, dirs_exist_ok=True, ignore=_links)
        self.end(Status.OK, None)

    def collect_outputs(self) -> list[parity.Outputs]:
        """The outputs themselves, for the launch that makes a reference. Raises LaunchEndedError."""
        folder, slots = self._write_outputs("reference")
        try:
            outputs = parity.read_outputs(folder, slots)
        except (OSError, ValueError) as error:
            raise LaunchEndedError(Status.FAILED, self._error(type(error).__name__, str(error), "outputs")) from None
        if found := self._differences():
            raise LaunchEndedError(Status.MISMATCH, self._error("mismatch", "; ".join(found)))
        shutil.rmtree(folder, ignore_errors=True)
        return outputs

    # --- endings ----------------------------------------------------------------------------------------------------

    def end(self, status: Status, error: CellError | None) -> None:
        """The launch is over: worker gone, scratch removed, record on disk."""
        self.kill()
        shutil.rmtree(self._spec.scratch, ignore_errors=True)
        self._record = self._make_record(status, error)
        self._context.keep(self._record)

    def kill(self) -> None:
        """No more than that: worker and children are gone."""
        if self._running:
            self._running.end()

    def abandon(self) -> None:
        """The run was interrupted."""
        self.end(Status.INTERRUPTED, self._error("interrupted", "the run was interrupted"))

    def _verdict(self) -> tuple[Status, CellError | None]:
        """Of a launch that said its last word; where several hold, the precedence of docs/methodology.md."""
        for record in self._findings.parity:
            if not record.passed:
                return _parity_status(record), self._parity_error(record)
        if found := self._differences():
            return Status.MISMATCH, self._error("mismatch", "; ".join(found))
        if self._findings.warm_up and not self._findings.warm_up.settled:
            return Status.UNSTABLE, self._error("unstable", unsettled(self._findings.warm_up), "warmup")
        if why := disturbance.recompiling(self._findings.rounds):
            return Status.UNSTABLE, self._error("unstable", why, "steady")
        if self._context.reference.outputs is None:
            return Status.UNVERIFIED, self._error("unverified", f"no reference: {self._context.reference.reason}")
        return Status.OK, None

    def _differences(self) -> list[str]:
        return differences(self._requested, self._effective)

    def _close_process(self) -> None:
        self._process.ask(protocol.Close(), protocol.Closed, self._patience_s)
        self._process.close()

    # --- details ----------------------------------------------------------------------------------------------------

    @property
    def _process(self) -> RunningLaunch:
        assert self._running is not None, "the launch was not started"
        return self._running

    @property
    def _patience_s(self) -> float:
        return self._context.protocol.phase_timeout_seconds

    @property
    def _requested(self) -> dict[str, Any]:
        bound = {"bind_threads": True} if self._is_bound_launch else {}
        return {**requested(self.cell, self._prepared.backend), **bound}

    @property
    def _effective(self) -> dict[str, Any]:
        bound = {"bind_threads": self._findings.processors["reason"] is None} if self._is_bound_launch else {}
        return {**self._facts.get("effective", {}), **bound}

    @property
    def _is_bound_launch(self) -> bool:
        """Whether threads were to be bound, in rounds that it had."""
        return self._context.protocol.bind_threads and bool(self._findings.rounds)

    @property
    def _processors(self) -> dict[str, Any]:
        return {"processors": self._findings.processors} if self._findings.processors else {}

    @property
    def _facts(self) -> dict[str, Any]:
        return self._findings.ready.facts if self._findings.ready else {}

    def _new_process(self) -> None:
        """A fresh launch folder and no findings: nothing of an earlier process is mixed in."""
        launch_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        folder = self._context.folder(self.cell.key, launch_id)
        scratch = folder / "scratch"
        scratch.mkdir(parents=True)
        self._cache = scratch / "reusable"
        if self._prepared.warm_cache:
            _copy_writable(self._prepared.warm_cache, self._cache)
        else:
            self._cache.mkdir()
        readable = _readable(self._prepared)
        self._spec = LaunchSpec(launch_id, self._prepared.backend, folder, scratch, readable, self.cell.device)
        self._started_at = datetime.now(UTC).isoformat()
        self._running = None
        self._findings = _Findings()

    def _job(self) -> protocol.Job:
        prepared = self._prepared
        folders = (prepared.checkpoint.folder, prepared.inputs.folder, self._cache)
        return make_job(self.cell, self._spec, self._context.executor, *folders, prepared.eos_token_ids)

    def _judge(self, when: Literal["before", "after"]) -> None:
        """Raises LaunchEndedError where outputs are wrong before timing: nothing wrong is worth a number."""
        folder, slots = self._write_outputs(when)
        if self._context.reference.outputs is not None:
            record = self._judged(folder, slots, self._context.reference.outputs, when)
            self._findings.parity.append(record)
            if when == "before" and not record.passed:
                raise LaunchEndedError(_parity_status(record), self._parity_error(record))
        shutil.rmtree(folder, ignore_errors=True)  # judged: hundreds of MB for a large vocabulary; a wrong one is kept

    def _write_outputs(self, label: str) -> tuple[Path, int]:
        written = self._process.ask(protocol.Outputs(label=label), protocol.OutputsWritten, self._patience_s)
        self._observe(written)
        self._findings.produced_tokens = written.produced_tokens
        return self._spec.folder / written.folder, written.slots

    def _judged(
        self, folder: Path, slots: int, reference: Sequence[parity.Outputs], when: Literal["before", "after"]
    ) -> ParityRecord:
        try:
            outputs = parity.read_outputs(folder, slots)
        except (OSError, ValueError) as error:
            return ParityRecord(when=when, passed=False, max_abs=None, message=f"outputs cannot be read: {error}")
        return parity.judge(reference, outputs, parity.precision(self.cell), when, self._prepared.eos_token_ids)

    def _accuracy(self, windows: accuracy.Windows | str) -> AccuracyRecord:
        if isinstance(windows, str):
            return AccuracyRecord(reason=windows)
        inputs = self._context.executor.visible(self._spec, windows.folder)
        written = self._process.ask(protocol.Accuracy(inputs=inputs), protocol.AccuracyWritten, self._patience_s)
        self._observe(written)
        if written.file is None:
            return AccuracyRecord(reason=written.reason)
        return accuracy.judge(windows, self.cell.task, self._spec.folder / written.file)

    def _warmed_up(self) -> bool:
        settings = self._context.protocol
        command = protocol.WarmUp(
            window_calls=settings.warm_up_window_calls,
            window_ns=_ns(settings.warm_up_window_seconds),
            tolerance=settings.warm_up_tolerance,
            limit_ns=_ns(settings.warm_up_seconds),
            probe_tolerance=settings.probe_tolerance,
            foreign_tolerance=settings.foreign_tolerance,
        )
        warmed = self._process.ask(command, protocol.WarmedUp, self._patience_s + settings.warm_up_seconds)
        self._observe(warmed)
        self._findings.warm_up = warm_up_record(warmed)
        self._findings.ledger += compile_records("warmup", warmed)
        return warmed.settled

    def _note_round(self, samples: protocol.Samples, pass_: Pass, division: Division) -> None:
        self._findings.rounds.append(round_record(samples, pass_))
        self._findings.ledger += compile_records("steady", samples)
        reason = self._findings.processors.get("reason") or samples.unbound_reason
        self._findings.processors = {**division.facts(), "bound": samples.bound, "reason": reason}

    def _observe(self, event: protocol.Event) -> None:
        self._context.observe(self.cell, event)

    def _refused(self, version: int) -> LaunchEndedError:
        message = (
            f"the worker speaks protocol {version}, this host {protocol.PROTOCOL_VERSION}: rebuild the image (or the "
            f"environment) of stack {self._prepared.backend.stack.name}"
        )
        return LaunchEndedError(Status.FAILED, self._error("ProtocolError", message))

    def _error(self, kind: str, message: str, stage: str | None = None) -> CellError:
        return CellError(type=kind, message=message, stage=stage or (self._running.stage if self._running else "start"))

    def _parity_error(self, record: ParityRecord) -> CellError:
        where = "" if record.when == "before" else "after the rounds: "
        return self._error("parity", f"{where}{record.message}", "outputs")

    def _make_record(self, status: Status, error: CellError | None) -> LaunchRecord:
        ready, memory = self._findings.ready, self._findings.memory
        return LaunchRecord(
            launch_id=self._spec.launch_id,
            block_id=self._block_id,
            block_index=self._block_index,
            companions=self._companions,
            schedule=self._context.schedule.kind,
            schedule_reason=self._context.schedule.reason,
            hashes=self._prepared.hashes,
            started_at=self._started_at,
            command=self._running.argv if self._running else [],
            status=status,
            error=error,
            import_ns=self._findings.import_ns,
            stages=_stages(ready.stages) if ready else [],
            not_applicable=ready.not_applicable if ready else {},
            cold_start_ns=ready.cold_start_ns if ready else None,
            clock_ns=ready.clock_ns if ready else None,
            items=ready.items if ready else {},
            produced_tokens=self._findings.produced_tokens,
            inputs_sha256=ready.inputs_sha256 if ready else None,
            requested=self._requested,
            effective=self._effective,
            versions=dict(self._facts.get("versions", {})),
            details={**self._facts.get("details", {}), **self._processors},
            parity=self._findings.parity,
            accuracy=self._findings.accuracy,
            warm_up=self._findings.warm_up,
            rounds=self._findings.rounds,
            compile_ledger=compile_ledger(self._findings.ledger),
            memory_bytes=memory.bytes if memory else {},
            memory_reasons=memory.reasons if memory else {},
            monitor_reason=self._context.watcher.reason,
        )


def _ns(seconds: float) -> int:
    return round(seconds * NS)


def _links(folder: str, names: list[str]) -> set[str]:
    """Those that are symbolic links: a worker made them, and out here they would lead to files of the host's."""
    return {name for name in names if Path(folder, name).is_symlink()}


def _copy_writable(source: Path, target: Path) -> None:
    """The kept one is read-only; a compiler wants to write beside what it finds."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def _stages(stages: Iterable[tuple[str, str, int]]) -> list[Stage]:
    return [Stage(phase=phase, stage=stage, duration_ns=duration_ns) for phase, stage, duration_ns in stages]


def _readable(prepared: PreparedCell) -> tuple[Path, ...]:
    """What a worker of the cell is to read, and no more."""
    texts = () if isinstance(prepared.windows, str) else (prepared.windows.folder,)
    return (prepared.checkpoint.folder, prepared.inputs.folder, *texts)


def _parity_status(record: ParityRecord) -> Status:
    return Status.PARITY_FAILED if record.finite else Status.NUMERICAL_FAILURE
