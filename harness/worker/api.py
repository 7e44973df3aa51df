"""What a backend's runner implements, and what it may raise: the plugin boundary inside the container.

A runner needs no base class, though `harness.worker.bases` has some: matching the `Runner` protocol is enough. It is constructed
after its module was imported, so import the framework at module level: that time is `import`, not `load`. Its constructor is given
nothing, or `job` where it has a parameter of that name: only to decide what has to be imported or started, for nothing may be
loaded yet. Depends on numpy alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from harness.protocol import Job

__all__ = [
    "BUILD",
    "FIRST_TOKEN",
    "KV_CACHE_BYTES",
    "RUNNERS_COUNTERS",
    "TOKEN",
    "Arrays",
    "Counters",
    "Facts",
    "Job",
    "Mark",
    "Operation",
    "Runner",
    "Stages",
    "Stopwatch",
    "Transferring",
    "Unsupported",
    "cpu_counters",
    "describe_build",
    "versions_of",
]

Arrays = Mapping[str, npt.NDArray[Any]]
"""Named arrays: one slot's inputs, or one call's outputs."""

Stages = Sequence[tuple[str, int]]
"""(stage, whole nanoseconds): disjoint, in order.

A stage named `phase.detail` or just `phase` counts towards `phase` (load, prepare, compile, first_call), any other name towards
the phase that returned it. `compile` may run the first call: then it returns a stage `first_call` (after its own)."""

Counters = Mapping[str, int | str]
"""Bytes by scoped name. A text in place of a number says why it cannot be known, as "on CPU PyTorch counts nothing"."""

KV_CACHE_BYTES = "kv_cache_bytes"
"""Counter of a runner of prefill, decode or generate: keys and values of all layers, as its last call left them allocated."""

RUNNERS_COUNTERS = (
    "weights_bytes",
    "allocated_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_context_bytes",
)
"""Counters that every runner is asked for: `harness.worker.memory` says what each is. A runner may add some of its own."""

BUILD = ("compiler", "compiler_flags", "blas", "cuda", "commit")
"""What every backend is asked for of its framework's build, as text. The flags are those that change the code."""

FIRST_TOKEN, TOKEN = "first_token", "token"
"""What generate marks: the first token of all rows, then each further one; as many marks as tokens, or none at all."""

Mark = Callable[[str], None]
"""Stamps an instant inside a call, as `mark("first_token")`, when the device is done with what it names. Every call stamps the
same names in the same order; marked and unmarked rounds are kept apart, so what it takes to stamp is in no latency."""


class Stopwatch:
    """Laps, one after the other: stages."""

    def __init__(self) -> None:
        self.laps: list[tuple[str, int]] = []
        self._last_ns = time.perf_counter_ns()

    def lap(self, name: str) -> None:
        """The time since the last lap is that of `name`."""
        now_ns = time.perf_counter_ns()
        self.laps.append((name, now_ns - self._last_ns))
        self._last_ns = now_ns


class Unsupported(Exception):  # noqa: N818 - a reason, not a mistake
    """The cell cannot run on this backend, known only inside the container; the text is the reason shown to the user."""


@dataclass(frozen=True)
class Facts:
    """What is really in effect, read back from the framework, never echoed from the request."""

    effective: Mapping[str, Any]
    """`device`, `dtype`, `threads`, `eval_mode`, `inference_mode`, every option in effect, every fact the Backend `expects`."""
    versions: Mapping[str, str]
    """Distribution -> version."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Providers, attention class ...: stored, not compared. Under `build`, how the framework was built: `describe_build`."""


def describe_build(unknown: str, **known: str | None) -> dict[str, Any]:
    """How a framework was built, in the words of all backends: those of `BUILD`, and more where it tells more.

    `unknown` says why those are not known that are not given, or None.
    """
    build = {name: known.get(name) for name in (*BUILD, *known)}
    return {**build, "reasons": {name: unknown for name, value in build.items() if value is None}}


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """As `Facts.versions` has them: of those that can change a number."""
    return {name: version(name) for name in distributions}


def cpu_counters(unknown: str, **known: int | str) -> Counters:
    """Counters of a runner on a CPU, which has no context. `unknown` says why those of `RUNNERS_COUNTERS` are not known that are
    not given."""
    return {**dict.fromkeys(RUNNERS_COUNTERS, unknown), "device_context_bytes": "a CPU has no context", **known}


@runtime_checkable
class Operation(Protocol):
    """One thing to time, of `harness.tasks.OPERATIONS`; "application" is the worker's own, around the runner's forward.

    The timed call is the backend's public call with native inputs and outputs already in place: no copy to the host in it.

    forward    Inputs and outputs by the task.
    prefill    A prompt to the logits of its last position and a filled cache, fresh each time: where it is preallocated, `begin`
               resets it and `calls_per_begin` is 1. Outputs: {"logits": (batch, vocabulary)}. Items: as `count_items`.
    decode     `begin` reads the prompt and chooses the first token; each call is one step: a token in, logits, the likeliest chosen
               (on the device, where the framework can), a cache longer by one. `calls_per_begin` is `job.new_tokens` - 1. Nothing
               looks at end-of-sequence.
               Outputs, after `begin` and after each call: {"tokens": (batch,) int64 chosen last, "logits": (batch, vocabulary)
               it was chosen from}. Items: {"tokens": batch, "samples": batch}.
    generate   The library's own generate(), to exactly `job.new_tokens` tokens, counted in every call: end-of-sequence never
               shortens, and no other means to that end may change tokens. Sampling draws by the model's own probabilities.
               Where `job.eos_token_ids` names tokens, each of them ends its row, `job.new_tokens` is the limit, every call makes
               as many tokens as the slot's first one did (`harness.worker.endings.CountedCalls`), and rows are filled up with
               the first of those tokens. The worker counts what was produced by `tokens`, so that `items` stay the limit's.
               Outputs: {"tokens": (batch, new tokens) int64}, with beams {"sequences_scores": (batch,)} too; where it samples,
               those of a greedy call made for it, as nothing can be held against a drawn sequence. Items: {"tokens": batch x
               new tokens, "samples": batch}, beams not counted. Marks: `FIRST_TOKEN`, then `TOKEN` each (where rows may end
               `FIRST_TOKEN` alone); a backend whose generate is one program makes none.

    Prompts of the last three are `input_ids` and `attention_mask`, (batch, sequence_length) each; where there is padding, it is on
    the left for a decoder, and where its tokenizer has it for an encoder-decoder. Positions follow from the mask: its cumulative
    sum less 1, at least 0.
    """

    items: Mapping[
        str, int
    ]  # per call, as `harness.worker.items` counts them, the one that throughput is told in first
    calls_per_begin: int | None  # calls one begin() allows; None: stateless, any number

    def compile(self) -> Stages:
        """Compile for the slots' shapes; empty where there is nothing to compile."""

    def begin(self, slot: int) -> None:
        """Untimed: choose the input, fresh cache and state. Where `calls_per_begin` is None it must be O(1)."""

    def call(self, mark: Mark | None = None) -> None:
        """One call on the input chosen; may return before the device is done."""

    def wait(self) -> None:
        """Return when the device is done with every call made."""

    def outputs(self) -> Arrays:
        """Host copies of the last call's outputs, untimed, float32 where the model's are floating; names as in Transformers."""


@runtime_checkable
class Transferring(Operation, Protocol):
    """A forward operation that takes inputs other than its slots': what raw texts came to, or a text that accuracy is told by."""

    def transfer(self, arrays: Arrays) -> None:
        """Instead of `begin`: put host arrays, of a slot's names and shapes, in place as the next call's input. Synchronous."""


@runtime_checkable
class Runner(Protocol):
    """One backend around one model."""

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Phase -> why it has no time of its own, as {"compile": "eager compiles nothing"}. A plain attribute will do."""

    def load(self, job: Job) -> Stages:
        """Weights from `job.checkpoint` on the device. Set and later read back `job.threads`. Raises Unsupported."""

    def prepare(self) -> Stages:
        """Export, optimise, quantise: a shippable artefact in `job.cache`, or the one found there; empty where there is none."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        """The operation on these inputs, moved to where the framework wants them. Raises Unsupported."""

    def facts(self) -> Facts:
        """Called after the first call."""

    def compilations(self) -> int:
        """How many times the framework has compiled or captured anything: monotone, cheap. 0 where it never does."""

    def memory(self, *, reset: bool = False) -> Counters:
        """The framework's own counters, those of `RUNNERS_COUNTERS` at least; with `reset`, peaks start anew first.

        Of prefill, decode and generate `KV_CACHE_BYTES` too.
        """

    def close(self) -> None:
        """Free model and device memory."""
