"""What `harness.worker.conformance` sees of a runner: one record a step, in this order. `harness.testing` judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OUTPUTS = "outputs-compared"
"""The folder, in that of the launch, with the outputs of every input as the first calls gave them: `slot-{i}.npz`."""


@dataclass(frozen=True)
class Started:
    """The cold start."""

    stages: list[list[Any]]  # (phase, stage, nanoseconds)
    reasons: dict[str, str]  # phase -> why the runner gives it no stages
    elapsed_ns: int
    items: dict[str, int]
    compilations: int  # the counter after it


@dataclass(frozen=True)
class Told:
    """The runner's facts."""

    effective: dict[str, Any]
    versions: dict[str, str]
    details: dict[str, Any]


@dataclass(frozen=True)
class Waited:
    """Calls on one input, each with its wait, and then its outputs taken twice: the second time nothing can be under way."""

    call_ns: list[int]
    outputs_ns: list[int]
    again_ns: list[int]


@dataclass(frozen=True)
class Visited:
    """On each input that was not used before one call and wait, and at once another: what disturbs the one disturbs both."""

    first_ns: list[int]
    second_ns: list[int]


@dataclass(frozen=True)
class Worked:
    """Calls made one after the other."""

    threads: (
        float  # processor time of all threads over that of the busiest: how many worked, however busy the machine is
    )


@dataclass(frozen=True)
class Compared:
    """The outputs of every input, taken twice."""

    described: list[str]  # distinct descriptions of one input's outputs: names, types, shapes
    finite: bool
    repeat_difference: float | None  # largest, between both outputs of an input; null where described differently
    input_difference: float | None  # smallest over the inputs of the largest to the first one's; null as above
    kept: bool  # whether outputs taken earlier were still the same after later calls
    compilations: int  # the counter after them


@dataclass(frozen=True)
class Counted:
    """The memory pass."""

    bytes: dict[str, int | None]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Reshaped:
    """Another operation, on inputs with one row: compiled and called."""

    items: dict[str, int]
    compilations_before: int
    compilations_after: int


@dataclass(frozen=True)
class Freed:
    """What the process held with everything loaded, and after `close`: its own memory, and files of the launch mapped into it."""

    held_before_bytes: int
    held_after_bytes: int


Observation = Started | Told | Waited | Visited | Worked | Compared | Counted | Reshaped | Freed

ORDER: tuple[type[Observation], ...] = (
    Started,
    Told,
    Waited,
    Visited,
    Worked,
    Compared,
    Counted,
    Reshaped,
    Freed,
)
