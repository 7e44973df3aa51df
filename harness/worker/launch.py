"""One launch, seen from inside: carries out commands on one runner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.protocol import (
    Accuracy,
    AccuracyWritten,
    Close,
    Closed,
    Command,
    Event,
    Import,
    Imported,
    Job,
    Memory,
    MemoryRead,
    Open,
    Outputs,
    OutputsWritten,
    PhaseStarted,
    ProtocolError,
    Ready,
    Round,
    Samples,
    WarmedUp,
    WarmUp,
)
from harness.worker.accuracy import run_and_reduce
from harness.worker.affinity import Affinity
from harness.worker.api import Arrays, Operation, Runner, Transferring
from harness.worker.application import runner_for
from harness.worker.arrays import inputs_sha256, read_inputs, slots_of, write_npz
from harness.worker.checks import facts_as_json
from harness.worker.coldstart import ColdStart, cold_start, reasons_without_stages
from harness.worker.decoding import decode_outputs
from harness.worker.endings import produced
from harness.worker.ledger import CompileLedger
from harness.worker.marks import Stamped
from harness.worker.memory import memory_pass
from harness.worker.probe import Probe
from harness.worker.processes import Reading, peak_rss
from harness.worker.surroundings import Continuations, Witness, long_call, long_stretch
from harness.worker.timing import Clock, LatencyStretch, TimingLoop, clock_cost_ns
from harness.worker.warmup import warm_up

PROBING_CALLS = 10
PROBING_NS = 50_000_000
PROBING_LIMIT_NS = 1_000_000_000
"""Of the round that shows which threads compute: so many calls and so long at least, and no new call after the limit."""


def witness_of_this_process(clock: Clock) -> Witness:
    """With the probe, and an ear for the signal that continues a stopped process: to be made in the main thread."""
    continuations = Continuations()
    continuations.listen()
    return Witness(Probe(clock), continuations, clock)


@dataclass(frozen=True)
class _Imported:
    """After Import: a runner that has loaded nothing."""

    job: Job
    runner: Runner


@dataclass(frozen=True)
class _Opened:
    """After Open: an operation that has made its first call."""

    job: Job
    runner: Runner
    operation: Operation
    slots: int
    loop: TimingLoop
    ledger: CompileLedger
    affinity: Affinity
    witness: Witness
    cold_start_peak: Reading


@dataclass(frozen=True)
class _Calls:
    """What a round's calls came to."""

    calls: int
    settle_calls: int
    elapsed_ns: int
    compiled: int
    stops: list[str]
    samples: LatencyStretch | None = None  # where they were timed one by one
    stamped: Stamped | None = None  # where they stamped their parts

    @property
    def arrays(self) -> Arrays:
        """What goes to disk; none where calls were timed together."""
        if self.samples is None:
            return {}
        stamps = {"mark_ns": self.stamped.since_start_ns} if self.stamped else {}
        return {**self.samples.arrays(), **stamps}


class Launch:
    """Carries out one command at a time; `phase` is what it is doing or did last."""

    def __init__(
        self,
        say: Callable[[Event], None],
        clock: Clock = time.perf_counter_ns,
        make_witness: Callable[[Clock], Witness] = witness_of_this_process,
    ) -> None:
        self.phase = "import"
        self._say = say
        self._clock = clock
        self._make_witness = make_witness
        self._announced: str | None = None
        self._imported: _Imported | None = None
        self._opened: _Opened | None = None
        self._produced: list[int] | None = None

    def carry_out(self, command: Command) -> Event:
        """The command's answer. Raises ProtocolError for a command out of order, and whatever the runner raises."""
        match command:
            case Import():
                return self._import(command)
            case Open():
                return self._open(self._after_import(command))
            case Outputs():
                return self._outputs(command, self._after_open(command))
            case Accuracy():
                return self._accuracy(command, self._after_open(command))
            case WarmUp():
                return self._warm_up(command, self._after_open(command))
            case Round():
                return self._round(command, self._after_open(command))
            case Memory():
                return self._memory(command, self._after_open(command))
            case Close():
                return self._close()

    # --- the order of commands --------------------------------------------------------------------------------------

    def _after_import(self, command: Command) -> _Imported:
        if self._imported is None:
            raise ProtocolError(f"the command {command.kind!r} came before 'import'")
        return self._imported

    def _after_open(self, command: Command) -> _Opened:
        if self._opened is None:
            raise ProtocolError(f"the command {command.kind!r} came before 'open'")
        return self._opened

    def _announce(self, phase: str) -> None:
        """Tell the host once per phase, not once per round: it should sleep while calls are timed."""
        self.phase = phase
        if phase != self._announced:
            self._announced = phase
            self._say(PhaseStarted(phase))

    # --- the commands -----------------------------------------------------------------------------------------------

    def _import(self, command: Import) -> Imported:
        if self._imported is not None:
            raise ProtocolError("the command 'import' came twice: a worker is for one launch")
        self._announce("import")
        started = self._clock()
        runner = runner_for(command.job)
        import_ns = self._clock() - started
        self._imported = _Imported(command.job, runner)
        return Imported(import_ns)

    def _open(self, imported: _Imported) -> Ready:
        if self._opened is not None:
            raise ProtocolError("the command 'open' came twice: a launch has one cold start")
        job, runner = imported.job, imported.runner
        self._announce("load")
        inputs = read_inputs(Path(job.inputs))
        slots, sha256 = slots_of(inputs), inputs_sha256(inputs)
        started = cold_start(runner, job, slots, self._announce, self._clock)
        peak = peak_rss()
        ledger = CompileLedger(slots)
        loop = TimingLoop(
            started.operation,
            len(slots),
            runner.compilations,
            self._clock,
            ledger.add,
            whole_rotations=bool(job.eos_token_ids),
        )
        affinity = Affinity(job.threads, lambda: loop.latency(PROBING_CALLS, PROBING_NS, PROBING_LIMIT_NS))
        self._opened = _Opened(
            job=job,
            runner=runner,
            operation=started.operation,
            slots=len(slots),
            loop=loop,
            ledger=ledger,
            affinity=affinity,
            witness=self._make_witness(self._clock),
            cold_start_peak=peak,
        )
        return self._ready(runner, started, sha256)

    def _ready(self, runner: Runner, started: ColdStart, sha256: str) -> Ready:
        return Ready(
            stages=started.stages,
            not_applicable=reasons_without_stages(started.stages, runner.not_applicable),
            cold_start_ns=started.elapsed_ns,
            clock_ns=clock_cost_ns(self._clock),
            items={name: int(count) for name, count in started.operation.items.items()},
            compilations=runner.compilations(),
            inputs_sha256=sha256,
            facts=facts_as_json(runner.facts()),
        )

    def _outputs(self, command: Outputs, opened: _Opened) -> OutputsWritten:
        self._announce("outputs")
        name = f"outputs-{command.label}"
        folder = Path(opened.job.folder) / name
        folder.mkdir(exist_ok=True)
        outputs = decode_outputs if opened.job.operation == "decode" else _call_outputs
        made = []
        for slot in range(opened.slots):
            arrays = outputs(opened.operation, slot)
            write_npz(folder / f"slot-{slot}.npz", arrays)
            if opened.job.eos_token_ids:
                made.append(produced(arrays["tokens"], opened.job.eos_token_ids))
        self._check_produced(made)
        return OutputsWritten(name, opened.slots, made)

    def _check_produced(self, made: list[int]) -> None:
        """Rates are of the tokens counted before the rounds, so they have to be as many after them."""
        before, self._produced = self._produced or made, made
        for slot, (once, now) in enumerate(zip(before, made, strict=True)):
            if once != now:
                raise RuntimeError(f"slot {slot}: {now} tokens were made where there had been {once} before the rounds")

    def _accuracy(self, command: Accuracy, opened: _Opened) -> AccuracyWritten:
        self._announce("outputs")
        if not isinstance(opened.operation, Transferring):
            return AccuracyWritten(None, "the backend's operation takes no inputs but its slots: it has no transfer()")
        file = "accuracy.npz"
        kept = run_and_reduce(opened.operation, opened.job.task, Path(command.inputs))
        write_npz(Path(opened.job.folder) / file, kept)
        return AccuracyWritten(file, None)

    def _warm_up(self, command: WarmUp, opened: _Opened) -> WarmedUp:
        self._announce("warmup")
        return warm_up(opened.loop, command, opened.witness.watch, opened.ledger, self._clock)

    def _round(self, command: Round, opened: _Opened) -> Samples:
        rounds = {
            "latency": self._latency_round,
            "throughput": self._throughput_round,
            "marked": self._marked_round,
        }
        if command.mode not in rounds:
            raise ProtocolError(f"a round of mode {command.mode!r}; there are {', '.join(rounds)}")
        self._announce("steady")
        make = rounds[command.mode]
        with opened.affinity.kept(command.cpus, bind=command.bind) as placed:
            calls, surroundings = opened.witness.watch(lambda: make(command, opened), command.cpus)
        compiled_count, compiled_ns = opened.ledger.take()
        return Samples(
            index=command.index,
            mode=command.mode,
            calls=calls.calls,
            settle_calls=calls.settle_calls,
            elapsed_ns=calls.elapsed_ns,
            compilations=opened.runner.compilations(),
            compiled=calls.compiled,
            compiled_count=compiled_count,
            compiled_ns=compiled_ns,
            probe_ns=surroundings.probe_ns,
            foreign_share=surroundings.foreign_share,
            stops=[*surroundings.stops, *calls.stops],
            bound=placed.bound,
            unbound_reason=placed.reason,
            file=_written(command, opened, calls.arrays),
            marks=list(calls.stamped.names) if calls.stamped else [],
        )

    def _latency_round(self, command: Round, opened: _Opened) -> _Calls:
        return _timed_one_by_one(opened, *opened.loop.latency_round(command))

    def _marked_round(self, command: Round, opened: _Opened) -> _Calls:
        return _timed_one_by_one(opened, *opened.loop.marked_round(command))

    def _throughput_round(self, command: Round, opened: _Opened) -> _Calls:
        settle_calls, stretch = opened.loop.throughput_round(command)
        return _Calls(
            calls=stretch.calls,
            settle_calls=settle_calls,
            elapsed_ns=stretch.elapsed_ns,
            compiled=stretch.compiled,
            stops=[] if stretch.compiled else long_stretch(stretch.elapsed_ns, stretch.expected_ns),
        )

    def _memory(self, command: Memory, opened: _Opened) -> MemoryRead:
        self._announce("memory")
        return memory_pass(opened.runner, lambda: opened.loop.latency(command.calls), opened.cold_start_peak)

    def _close(self) -> Closed:
        self._announce("close")
        if self._opened is not None:
            self._opened.runner.close()
        return Closed()


def _call_outputs(operation: Operation, slot: int) -> Arrays:
    operation.begin(slot)
    operation.call()
    operation.wait()
    return operation.outputs()


def _timed_one_by_one(
    opened: _Opened, settle_calls: int, stretch: LatencyStretch, stamped: Stamped | None = None
) -> _Calls:
    return _Calls(
        calls=len(stretch.total_ns),
        settle_calls=settle_calls,
        elapsed_ns=stretch.elapsed_ns,
        compiled=int(stretch.compiled.sum()),
        stops=long_call(stretch.total_ns, stretch.compiled, stretch.slot if opened.job.eos_token_ids else None),
        samples=stretch,
        stamped=stamped,
    )


def _written(command: Round, opened: _Opened, arrays: Arrays) -> str | None:
    if not arrays:
        return None
    file = f"round-{command.index}.npz"
    write_npz(Path(opened.job.folder) / file, arrays)
    return file
