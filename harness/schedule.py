"""From a matrix to results: what is prepared, what is resumed, which blocks run, and what is kept when.

Everything that can fail for want of an environment, a checkpoint or inputs fails before the first clock starts, and costs no more
than the cells that need it: they become rows at once. Then group by group: rows that will not run, rows that a former run has,
blocks for the rest; each launch is on disk when it ends, each result when its cell has ended.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import accuracy, checkpoints, comparison, disturbance, inputs, reference, summary, warmth
from harness.block import BlockContext, PreparedCell, Reference, Schedule, run_block
from harness.engine import EngineLostError
from harness.executors.base import Executor
from harness.lease import Lease, no_lease
from harness.metadata import RunFacts
from harness.model import (
    Backend,
    Cell,
    CellError,
    Group,
    HarnessError,
    LaunchRecord,
    Matrix,
    Measurements,
    PlannedCell,
    Protocol,
    Result,
    Status,
)
from harness.monitor.numbers import add_monitoring
from harness.once import Once
from harness.plugins import PluginError, Plugins
from harness.progress import Reporter
from harness.room import choose_schedule
from harness.samples import MeasuredLaunch, read_launch
from harness.stacks import StackError, Stacks
from harness.stopping import Stopping
from harness.store import ResultStore
from harness.support import checkpoint_refusal, eos_token_ids

TIMED_ON = (Status.OK, *summary.GATES[1:])
"""A cell whose launch ended so goes on to the next block. No other ending is repeated block after block."""


@dataclass(frozen=True)
class Services:
    """What a run works with."""

    executor: Executor
    plugins: Plugins
    store: ResultStore
    reporter: Reporter
    lease: Lease = no_lease


@dataclass(frozen=True)
class Outcome:
    """Results of a run in the matrix's order; those resumed from a former run are among them."""

    results: tuple[Result, ...]
    resumed: int

    @property
    def is_fine(self) -> bool:
        return all(result.status.is_fine for result in self.results)


def run(matrix: Matrix, services: Services, *, fresh: bool = False) -> Outcome:
    """Run a matrix. `fresh`: measure also what a former run has.

    Raises HarnessError where the results directory fails, EngineLostError where there is no engine to begin with; KeyboardInterrupt
    after ending the workers. Either way what was finished is on disk.
    """
    try:
        return _Run(matrix, services, fresh).execute()
    finally:
        services.store.finish_runs()


class _Run:
    def __init__(self, matrix: Matrix, services: Services, fresh: bool) -> None:
        self.matrix = matrix
        self.services = services
        self.fresh = fresh
        self.facts = RunFacts.gather(services.executor.name, matrix.protocol, services.plugins, Path.cwd())
        self.stacks = Stacks(services.executor, services.plugins.backends, services.reporter.doing)
        self.observers = services.plugins.observers(services.reporter.note)
        self._checkpoints = Once[checkpoints.Checkpoint]()
        self._inputs = Once[inputs.Inputs]()
        self._results: dict[str, Result] = {}
        self._resumed = 0

    def execute(self) -> Outcome:
        groups = [self._prepared(group) for group in self.matrix.groups]
        for cells in groups:
            self._run_group(cells)
        ordered = (self._results.get(planned.cell.key) for planned in self.matrix.cells)
        return Outcome(tuple(result for result in ordered if result), self._resumed)

    def finish(self, result: Result) -> None:
        """On disk first, then told."""
        self.services.store.add(result)
        self._note(result)
        self.observers.cell_finished(result)

    def prepare(self, cell: Cell, backend: Backend) -> PreparedCell | str:
        """Environment, checkpoint and inputs of a cell, made where they are missing; or why it cannot run.

        Raises PluginError or StackError for what is wrong with this backend alone, HarnessError or MemoryError for the rest.
        """
        checkpoint = self._checkpoints.get(cell.checkpoint, lambda: self._checkpoint(cell))
        # The model's config may be known only now.
        reason = self.services.plugins.supports(cell, checkpoint.config) or checkpoint_refusal(
            cell, checkpoint.config, {path.name for path in checkpoint.folder.iterdir()}, checkpoint.generation_config
        )
        if reason:
            return reason
        endings = eos_token_ids(checkpoint.config, checkpoint.generation_config) if cell.stop_at_eos else ()
        doing = self.services.reporter.doing
        made = self._inputs.get(cell.workload_key, lambda: inputs.make_inputs(cell, checkpoint, progress=doing))
        windows = self._windows(cell, checkpoint)
        hashes = self.facts.hashes(cell, self.stacks.provide(backend, cell.device).stack_hash)
        return PreparedCell(cell, backend, hashes, checkpoint, made, windows=windows, eos_token_ids=endings)

    def _windows(self, cell: Cell, checkpoint: checkpoints.Checkpoint) -> accuracy.Windows | str:
        """Texts that the cell's accuracy is told by, or why it is not."""
        if not self.matrix.protocol.accuracy:
            return "the protocol asks for no accuracy"
        return accuracy.make_windows(cell, checkpoint, progress=self.services.reporter.doing)

    def _checkpoint(self, cell: Cell) -> checkpoints.Checkpoint:
        # A pinned identity is a source too, and what a branch names now may not be what was planned.
        identity = checkpoints.identify(cell.model if cell.model.startswith("path:") else cell.checkpoint)
        if identity.identity != cell.checkpoint:
            raise HarnessError(f"{cell.model} has changed since the plan was made; run the command again")
        return checkpoints.materialise(identity, self.stacks.make_checkpoint, self.services.reporter.doing)

    def _prepared(self, group: Group) -> list[PreparedCell]:
        """The cells of a group that will run; the others become rows at once."""
        cells = (self._prepare_or_finish(planned) for planned in group.cells)
        return [prepared for prepared in cells if prepared]

    def _prepare_or_finish(self, planned: PlannedCell) -> PreparedCell | None:
        if planned.status:
            self._finish_idle(planned.cell, planned.status, planned.reason or str(planned.status))
            return None
        try:
            prepared = self.prepare(planned.cell, self.services.plugins.backends[planned.cell.backend])
        except (PluginError, StackError) as fault:  # one backend's: the others go on
            self._finish_idle(planned.cell, Status.FAILED, str(fault))
            return None
        except EngineLostError:  # everybody's
            raise
        except (HarnessError, MemoryError) as fault:  # the workload's, or that of all with the checkpoint
            self._finish_unprepared(planned.cell, fault)
            return None
        if isinstance(prepared, str):
            self._finish_idle(planned.cell, Status.UNSUPPORTED, prepared)
            return None
        return prepared

    def _finish_unprepared(self, cell: Cell, fault: HarnessError | MemoryError) -> None:
        is_memory = isinstance(fault, (MemoryError, inputs.TooLargeError))
        status = Status.OUT_OF_MEMORY if is_memory else Status.FAILED
        self._finish_idle(cell, status, str(fault) or "memory did not suffice", stage="preparing")

    def _finish_idle(self, cell: Cell, status: Status, reason: str, stage: str | None = None) -> None:
        """`stage`: in which something broke that is not the plugin's."""
        error = CellError(type=str(status), message=reason, stage=stage) if stage else None
        metadata = self.facts.of_idle_cell(cell, status, None if error else reason, error)
        numbers = summary.nothing_measured(reason)
        self.finish(Result(key=cell.key, metadata=metadata, measurements=numbers, config=cell))

    def _run_group(self, cells: Sequence[PreparedCell]) -> None:
        resumed = {} if self.fresh else self._resume(cells)
        remaining = [prepared for prepared in cells if prepared.cell.key not in resumed]
        if remaining:
            # Counted before the first block, those that turn out to fail too: an interval must not depend on what came out.
            comparisons = len(cells) - 1
            with self.services.lease(remaining[0].cell.device, self.services.reporter.note):
                _GroupRun(self, remaining, comparisons, self._launches_of_baseline(resumed)).execute()

    def _resume(self, cells: Sequence[PreparedCell]) -> dict[str, Result]:
        found = {prepared.cell.key: self.services.store.find(prepared.hashes) for prepared in cells}
        resumed = {key: result for key, result in found.items() if result}
        for result in resumed.values():
            self._resumed += 1
            self._note(result)
        return resumed

    def _launches_of_baseline(self, resumed: Mapping[str, Result]) -> list[LaunchRecord] | None:
        """Where the baseline is resumed, its launches: cells that shared a block with it still compare."""
        for key, result in resumed.items():
            if result.config.backend == self.matrix.protocol.baseline:
                used = {launch.launch_id for launch in result.measurements.per_launch}
                return [launch for launch in self.services.store.launches(key) if launch.launch_id in used]
        return None

    def _note(self, result: Result) -> None:
        self._results[result.key] = result
        self.services.reporter.finished(result, len(self._results), len(self.matrix.cells))


class _GroupRun:
    """The cells of one workload that have no result yet, block after block."""

    def __init__(
        self,
        run: _Run,
        cells: Sequence[PreparedCell],
        comparisons: int,
        resumed_baseline: Sequence[LaunchRecord] | None,
    ) -> None:
        self._run = run
        self._resumed_baseline = resumed_baseline
        self._cells = list(cells)
        self._launches: dict[str, list[LaunchRecord]] = {prepared.cell.key: [] for prepared in cells}
        self._open = list(cells)  # no result yet
        self._blocks = 0
        self._criteria = comparison.criteria(run.matrix.protocol, comparisons)
        self._stopping = Stopping(run.matrix.protocol, self._criteria)
        self._schedule = Schedule()

    def execute(self) -> None:
        try:
            self._run_blocks(self._context())
            self._finish(self._open)
        except KeyboardInterrupt:
            self._keep_interrupted()
            raise

    def _run_blocks(self, context: BlockContext) -> None:
        if not self._run.fresh:
            self._take_finished_blocks()
        for prepared in self._cells:
            self._run.observers.cell_started(prepared.cell)
        if self._goes_on():
            self._fill_caches(context)
        while self._open and self._goes_on():
            self._run_block(context)
        self._tell_of_wide_intervals()
        self._tell_of_disturbances()

    def _goes_on(self) -> bool:
        return self._stopping.goes_on(self._blocks, self._pilots)

    def _pilots(self) -> list[list[float]]:
        """Log ratios of the pilot, for each cell that is still compared."""
        baseline = self._baseline()
        if baseline is None:
            return []
        others = [prepared for prepared in self._open if prepared is not baseline]
        pilot = self._measured(self._launches[baseline.cell.key])
        return [comparison.log_ratios(self._measured(self._launches[each.cell.key]), pilot) for each in others]

    def _run_block(self, context: BlockContext) -> None:
        if self._schedule.kind == "interleaved":  # where memory was too small once, the whole workload goes on so
            self._schedule = choose_schedule(self._open, self._run.matrix.protocol, self._run.services.store.launches)
        began_s = time.monotonic()
        self._add_block(run_block(self._open, replace(context, schedule=self._schedule), self._blocks))
        self._stopping.block_measured(time.monotonic() - began_s)
        self._finish([prepared for prepared in self._open if not self._is_timed(prepared)])

    def _add_block(self, records: Iterable[LaunchRecord]) -> None:
        for record in records:
            self._launches[record.hashes.key].append(record)
        self._blocks += 1

    def _tell_of_wide_intervals(self) -> None:
        needed = self._stopping.needed
        if needed is not None and self._blocks < needed:
            self._run.services.reporter.note(_wide_intervals(self._run.matrix.protocol, self._blocks, needed))

    def _tell_of_disturbances(self) -> None:
        launches = [launch for records in self._launches.values() for launch in records]
        if text := disturbance.warning(launches, self._run.matrix.protocol):
            self._run.services.reporter.note(text)

    def _fill_caches(self, context: BlockContext) -> None:
        for prepared in [each for each in self._open if each.cell.compile_cache == "warm"]:
            try:
                warm = warmth.warmed(prepared, context)
                self._open[self._open.index(prepared)] = warm
            except warmth.NotFilledError as failed:
                self._launches[prepared.cell.key].append(failed.record)
                self._finish([prepared])

    def _is_timed(self, prepared: PreparedCell) -> bool:
        return self._launches[prepared.cell.key][-1].status in TIMED_ON

    def _take_finished_blocks(self) -> None:
        """Use the whole blocks of a run that was killed before its cells had all their launches."""
        for records in self._finished_blocks():
            if not self._goes_on():
                break
            self._add_block(records)
        if self._blocks:
            self._run.services.reporter.note(f"Took {self._blocks} finished block(s) from a former run.")

    def _finished_blocks(self) -> list[list[LaunchRecord]]:
        """Oldest first: those that were the pilot then are the pilot now."""
        by_block = [self._launches_by_block(prepared) for prepared in self._cells]
        shared = set.intersection(*(set(launches) for launches in by_block))
        blocks = [[launches[block] for launches in by_block] for block in shared]
        return sorted(blocks, key=lambda records: records[0].started_at)

    def _launches_by_block(self, prepared: PreparedCell) -> Mapping[str, LaunchRecord]:
        stored = self._run.services.store.launches(prepared.cell.key)
        return {x.block_id: x for x in stored if x.hashes == prepared.hashes and x.status is Status.OK}

    # --- results ----------------------------------------------------------------------------------------------------

    def _finish(self, cells: Sequence[PreparedCell]) -> None:
        for prepared in list(cells):  # a copy: adding a result closes its cell
            status, error = summary.overall_status(self._launches[prepared.cell.key])
            self._add_result(prepared, status, error)

    def _keep_interrupted(self) -> None:
        error = CellError(type="interrupted", message="the run was interrupted before this cell had all its launches")
        for prepared in list(self._open):
            with contextlib.suppress(HarnessError):
                self._add_result(prepared, Status.INTERRUPTED, error)

    def _add_result(self, prepared: PreparedCell, status: Status, error: CellError | None) -> None:
        self._open.remove(prepared)
        records = self._launches[prepared.cell.key]
        provided = self._run.stacks.provide(prepared.backend, prepared.cell.device)
        metadata = self._run.facts.of_measured_cell(prepared, provided, records, status, error)
        numbers = add_monitoring(self._measure(prepared), records, self._run.services.store.block_folder)
        self._tell_of_foreign_processes(prepared, numbers)
        self._run.finish(Result(key=prepared.cell.key, metadata=metadata, measurements=numbers, config=prepared.cell))

    def _tell_of_foreign_processes(self, prepared: PreparedCell, numbers: Measurements) -> None:
        foreign = numbers.monitoring.gpu_foreign_processes if numbers.monitoring else None
        if foreign and foreign != "none":
            self._run.services.reporter.note(
                f"{prepared.cell.label}: other processes computed on the GPU meanwhile: {foreign}. A shared GPU disturbs; end "
                "them, or choose another GPU with CUDA_VISIBLE_DEVICES, and run with --fresh."
            )

    def _measure(self, prepared: PreparedCell) -> Measurements:
        mine = self._measured(self._launches[prepared.cell.key])
        baseline = self._measured_baseline(prepared, mine)
        return summary.measure(prepared.cell, mine, baseline, self._criteria, self._stopping.needed)

    def _measured_baseline(
        self, prepared: PreparedCell, mine: Sequence[MeasuredLaunch]
    ) -> Sequence[MeasuredLaunch] | None:
        baseline = self._baseline()
        if baseline is not None:
            is_baseline = baseline.cell.key == prepared.cell.key
            return mine if is_baseline else self._measured(self._launches[baseline.cell.key])
        return self._measured(self._resumed_baseline) if self._resumed_baseline else None

    def _baseline(self) -> PreparedCell | None:
        name = self._run.matrix.protocol.baseline
        return next((prepared for prepared in self._cells if prepared.cell.backend == name), None)

    def _measured(self, records: Sequence[LaunchRecord]) -> list[MeasuredLaunch]:
        store = self._run.services.store
        return [
            read_launch(record, store.launch_folder(record.hashes.key, record.launch_id), store.root)
            for record in records
        ]

    # --- what blocks share ------------------------------------------------------------------------------------------

    def _context(self) -> BlockContext:
        services = self._run.services
        context = BlockContext(
            executor=services.executor,
            protocol=self._run.matrix.protocol,
            reference=Reference(None, "not made yet"),
            folder=services.store.launch_folder,
            keep=services.store.add_launch,
            observe=self._run.observers.event,
            doing=services.reporter.doing,
            block_folder=services.store.block_folder,
        )
        return replace(context, reference=self._reference(context))

    def _reference(self, context: BlockContext) -> Reference:
        name = self._run.matrix.protocol.reference
        backend = self._run.services.plugins.backends.get(name)
        if backend is None:
            missing = self._run.services.plugins.why_missing(name)
            return Reference(None, missing or f"backend {name} is not installed")
        try:
            found = self._obtained(backend, context)
        except EngineLostError:
            raise
        except (HarnessError, MemoryError) as fault:
            found = Reference(None, str(fault) or "memory did not suffice to make it")
        if found.reason:
            self._run.services.reporter.note(
                f"No reference, so results of this workload stay unverified: {found.reason}"
            )
        return found

    def _obtained(self, backend: Backend, context: BlockContext) -> Reference:
        """Raises HarnessError or MemoryError."""
        cell = self._cells[0].cell
        prepared = self._run.prepare(reference.reference_cell(cell, backend), backend)
        if isinstance(prepared, str):
            return Reference(None, f"{backend.name}: {prepared}")
        return reference.obtain(prepared, context, cell.operation)


def _wide_intervals(protocol: Protocol, blocks: int, needed: int) -> str:
    """For people: what they get, why, and what they can do."""
    limit = "most_blocks" if blocks >= protocol.most_blocks else "budget_seconds"
    return (
        f"The launches of this workload differ so much that ratios as certain as ±{protocol.half_width:.1%} take {needed} blocks; "
        f"it got {blocks}, as {limit} allows no more. Its verdicts hold, with wider intervals. A quieter machine needs fewer "
        f"blocks (close what else runs, see `harness doctor`); else raise {limit}, or half_width, under `protocol`."
    )
