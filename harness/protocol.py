"""What host and worker say to each other.

The host writes one command per line to the worker's stdin, the worker one event per line to its stdout; each line is one
JSON object whose `kind` names a class of this module. A conversation:

    worker                                   host
    Hello                             ->
                                      <-     Import(job)
    Imported                          ->
                                      <-     Open            (one worker of a block at a time)
    PhaseStarted*, Ready              ->
                                      <-     Outputs         (all slots; judged on the host)
    OutputsWritten                    ->
                                      <-     Accuracy        (once for each cell that has a measure of it)
    AccuracyWritten                   ->
                                      <-     WarmUp
    WarmedUp                          ->
                                      <-     Round*          (rounds of a block's workers interleave)
    Samples                           ->
                                      <-     Outputs         (again: caching and drift are caught)
    OutputsWritten                    ->
                                      <-     Memory
    MemoryRead                        ->
                                      <-     Close
    Closed                            ->

Exactly one last word per command: its answer, or `Failed`. `PhaseStarted` may come before it. Where the process dies without
one, the host concludes from its exit. End of stdin ends the worker, so a killed host leaves none behind. Arrays travel as
files in the launch folder, never in these lines. Standard library only: the worker imports this module.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeVar, Union, get_args

PROTOCOL_VERSION = 4
"""Raised with every change that an older worker would misread; host and worker must agree exactly."""

RUNNER_VERSION = 1
"""Of `harness.worker.api`, the interface that a plugin's runner implements: raised when a runner that was right no longer is. What
is added and may be left out does not raise it."""

MAX_LINE_BYTES = 1 << 20
"""Longest line either side accepts. Facts and tracebacks fit; arrays do not belong here."""


class ProtocolError(Exception):
    """A line that is no message of this protocol; the text says what was seen."""


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know of one launch. Paths are those the worker sees."""

    runner: str  # "module:Class"
    backend: str
    task: str  # the Hub's name, as "feature-extraction"
    operation: str  # of harness.tasks.OPERATIONS
    checkpoint: str  # folder, read-only
    inputs: str  # folder with one <name>.npy per input, each of shape (slots, batch, ...)
    folder: str  # launch folder: samples and outputs are written here
    scratch: str  # private folder, removed after the launch
    cache: str  # private folder for compile caches and artefacts: empty at first, or (warm) as a former launch left it
    dtype: str
    device: str
    threads: int
    batch_size: int
    sequence_length: int
    compile_cache: str = "cold"  # "warm": use what is in `cache`; where that is nothing, this launch is to fill it
    new_tokens: int | None = None  # of decode and generate, the first included; null: the operation makes none
    do_sample: bool = False  # generate: drawn, not the likeliest
    num_beams: int = 1  # generate
    eos_token_ids: list[int] = field(default_factory=list)  # generate: each ends its row; empty: nothing does
    options: Mapping[str, Any] = field(default_factory=dict)  # the backend's declared options


@dataclass(frozen=True)
class Import:
    """Import the runner's module (and with it its framework), build the runner; nothing is loaded yet."""

    kind: ClassVar[str] = "import"
    job: Job


@dataclass(frozen=True)
class Open:
    """Load, prepare, compile, first call: the cold start."""

    kind: ClassVar[str] = "open"


@dataclass(frozen=True)
class Outputs:
    """Run every slot once, untimed, and write its outputs to `{folder}/outputs-{label}/slot-{i}.npz`.

    Once is one call; of decode, as many as a begin allows, whose outputs are stacked: `harness.worker.decoding`.
    """

    kind: ClassVar[str] = "outputs"
    label: str  # "before" or "after"


@dataclass(frozen=True)
class Accuracy:
    """Run every input of another folder once, untimed, and write what its measure needs of the outputs to `{folder}/accuracy.npz`,
    as `harness.worker.accuracy` says."""

    kind: ClassVar[str] = "accuracy"
    inputs: str  # laid out as `Job.inputs`, of the same names and shapes, but for the number of slots


@dataclass(frozen=True)
class WarmUp:
    """Call until the latency has settled (three windows whose medians agree and no compilation), or time is up."""

    kind: ClassVar[str] = "warm_up"
    window_calls: int
    window_ns: int
    tolerance: float
    limit_ns: int
    probe_tolerance: float  # a probe that moved further, when the latency did too, says that it was the machine
    foreign_tolerance: float  # other processes that used a larger part of the processors say so as well


@dataclass(frozen=True)
class Round:
    """A stretch of timed calls.

    `latency`: each call and wait timed. `marked`: so too, and the call stamps its parts, which costs time: its samples are kept
    apart. `throughput`: as many calls as fill the budget, one wait, one time.
    """

    kind: ClassVar[str] = "round"
    index: int
    mode: str  # "latency", "throughput" or "marked"
    settle_calls: int  # unrecorded, at least
    settle_ns: int  # and at least this long
    calls: int  # recorded, at least
    budget_ns: int  # and at least this long
    limit_ns: int  # never longer; one call at least is always recorded
    cpus: list[int] = field(default_factory=list)  # all threads stay on these while the round runs; empty: on any
    bind: bool = False  # the busiest threads, one on each of these, while the round runs


@dataclass(frozen=True)
class Memory:
    """A pass of its own, after timing: peaks are reset, `calls` calls run, peaks are read."""

    kind: ClassVar[str] = "memory"
    calls: int


@dataclass(frozen=True)
class Close:
    """Free everything; the worker answers and exits 0."""

    kind: ClassVar[str] = "close"


@dataclass(frozen=True)
class Hello:
    """First line of a worker. The host refuses a protocol version that is not its own."""

    kind: ClassVar[str] = "hello"
    protocol_version: int
    pid: int
    python: str


@dataclass(frozen=True)
class Imported:
    kind: ClassVar[str] = "imported"
    import_ns: int


@dataclass(frozen=True)
class PhaseStarted:
    """Names what the worker is about to do, so that a death or a hang can be given its stage.

    Said when the phase changes, so once for all rounds (`steady`): the host sleeps while calls are timed.
    """

    kind: ClassVar[str] = "phase_started"
    phase: str


@dataclass(frozen=True)
class Ready:
    """The cold start is over.

    `stages` are (phase, stage, nanoseconds) in order, disjoint; `cold_start_ns` has two stamps of its own, so its difference
    to the sum of the stages is the residual. `not_applicable` says for each phase without stages why.
    """

    kind: ClassVar[str] = "ready"
    stages: list[tuple[str, str, int]]
    not_applicable: dict[str, str]
    cold_start_ns: int
    clock_ns: int  # median cost of reading the clock once
    items: dict[str, int]  # per call: samples, tokens, positions, audio_seconds or images
    compilations: int
    inputs_sha256: str  # of the bytes the worker loaded
    facts: dict[str, Any]  # {"effective": {...}, "versions": {...}, "details": {...}}


@dataclass(frozen=True)
class OutputsWritten:
    kind: ClassVar[str] = "outputs_written"
    folder: str  # relative to the launch folder
    slots: int
    produced_tokens: list[int] = field(default_factory=list)  # by slot, where `Job.eos_token_ids` may end texts early


@dataclass(frozen=True)
class AccuracyWritten:
    kind: ClassVar[str] = "accuracy_written"
    file: str | None  # relative to the launch folder; null where nothing was run
    reason: str | None  # then why


@dataclass(frozen=True)
class WarmedUp:
    """`calls` and `elapsed_ns` are the warm-up itself: what came before the settled windows; all of it where not settled."""

    kind: ClassVar[str] = "warmed_up"
    settled: bool
    calls: int
    elapsed_ns: int
    discarded_ns: list[int]  # every sample taken, the settled windows' too; at most 10,000, the first ones
    compilations: int  # counter after all of them
    disturbed_calls: int  # what would have been the warm-up, had the machine not moved as well: then `calls` is 0
    reason: (
        str | None
    )  # why not settled: "recompiling", "short" (time for too few calls), "disturbed" (the machine moved
    # as well) or "unsteady" (it did not)
    compiled_count: dict[str, int]  # by shape of the inputs: compilations during these calls
    compiled_ns: dict[str, int | None]  # by shape: what the calls took during which something was compiled


@dataclass(frozen=True)
class Samples:
    """One round's answer.

    `file` (latency and marked mode): npz of `total_ns`, `call_ns`, `slot`, `compilations` (counter after the sample) and
    `compiled` (how far it moved during the sample), all int64 of (calls,); in marked mode also `mark_ns`, int64 of (calls, marks):
    since the start of the call.
    """

    kind: ClassVar[str] = "samples"
    index: int
    mode: str
    calls: int
    settle_calls: int
    elapsed_ns: int  # of the recorded calls; throughput mode: all calls and the one wait
    compilations: int  # counter after the round
    compiled: int  # how far it moved during the recorded calls
    compiled_count: dict[str, int]  # by shape of the inputs, the unrecorded calls' too
    compiled_ns: dict[str, int | None]  # as in WarmedUp; null where calls back to back hide it
    probe_ns: dict[str, list[int]]  # by kind: the units of work before the round, then those after it
    foreign_share: (
        float | None
    )  # CPU time of others, over that of the processors this worker may use; null: not told here
    stops: list[str]  # each a sentence: what says that the process or the machine stood still meanwhile
    bound: list[int]  # the processor of each bound thread, read back
    unbound_reason: str | None  # why threads were not bound, or not kept to `cpus`, though asked
    file: str | None
    marks: list[str] = field(default_factory=list)  # marked mode: names in the order stamped, the same in every call


@dataclass(frozen=True)
class MemoryRead:
    """Bytes by scoped name, null with a reason in `reasons` where it cannot be known."""

    kind: ClassVar[str] = "memory_read"
    bytes: dict[str, int | None]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Closed:
    kind: ClassVar[str] = "closed"


@dataclass(frozen=True)
class Failed:
    """The last word of a command that could not be carried out. The worker exits after it."""

    kind: ClassVar[str] = "failed"
    reason: str  # "error", "unsupported" or "out_of_memory"
    type: str  # the exception's class name
    message: str
    stage: str  # the phase it happened in
    traceback: str


@dataclass(frozen=True)
class Seen:
    """What `harness.worker.conformance` has seen of a runner: its answers to Import, several, the last before `Closed`.

    No worker says it.
    """

    kind: ClassVar[str] = "seen"
    what: str  # names a class of harness.worker.observations
    values: dict[str, Any]  # its fields


Command = Union[Import, Open, Outputs, Accuracy, WarmUp, Round, Memory, Close]
Event = Union[
    Hello,
    Imported,
    PhaseStarted,
    Ready,
    OutputsWritten,
    AccuracyWritten,
    WarmedUp,
    Samples,
    MemoryRead,
    Closed,
    Failed,
    Seen,
]
Message = Union[Command, Event]

COMMANDS: dict[str, type[Any]] = {message.kind: message for message in get_args(Command)}
EVENTS: dict[str, type[Any]] = {message.kind: message for message in get_args(Event)}


def encode(message: Message) -> bytes:
    """One line, newline included.

    Raises ProtocolError where a value is no JSON or the line is longer than MAX_LINE_BYTES.
    """
    try:
        text = json.dumps({"kind": message.kind, **dataclasses.asdict(message)}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"{message.kind}: {error}") from None
    line = text.encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"{message.kind}: a line of {len(line)} bytes, the limit is {MAX_LINE_BYTES}")
    return line


def decode_command(line: bytes) -> Command:
    """The command in a line. Raises ProtocolError."""
    message = _decode(line, COMMANDS)
    if isinstance(message, Import):
        return Import(job=_build(Job, message.job))
    return message  # type: ignore[no-any-return]


def decode_event(line: bytes) -> Event:
    """The event in a line. Raises ProtocolError."""
    message = _decode(line, EVENTS)
    if isinstance(message, Ready):
        return dataclasses.replace(message, stages=_stages(message.stages))
    return message  # type: ignore[no-any-return]


def _decode(line: bytes, kinds: Mapping[str, type[Any]]) -> Any:
    shown = line[:120]
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError(f"not a line of JSON: {shown!r}") from None
    kind = value.pop("kind", None) if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ProtocolError(f"not a message of protocol {PROTOCOL_VERSION}: {shown!r}")
    return _build(kinds[kind], value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, not JSON's")


def _stages(value: Any) -> list[tuple[str, str, int]]:
    """JSON knows no tuples."""
    try:
        return [(phase, stage, elapsed_ns) for phase, stage, elapsed_ns in value]
    except (TypeError, ValueError):
        raise ProtocolError(f"Ready: stages are (phase, stage, nanoseconds) each, seen: {str(value)[:120]}") from None


T = TypeVar("T")


def _build(kind: type[T], value: Any) -> T:
    try:
        return kind(**value)
    except TypeError as error:
        raise ProtocolError(f"{kind.__name__}: {error}") from None
