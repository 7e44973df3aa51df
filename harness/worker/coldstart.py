"""The cold start: from a runner that was only built to its first completed output, phase by phase."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.protocol import Job
from harness.worker.api import Arrays, Operation, Runner, Stages
from harness.worker.checks import check_members
from harness.worker.timing import Clock

PHASES = ("load", "prepare", "compile", "first_call")

NamedStages = list[tuple[str, str, int]]
"""(phase, stage, nanoseconds), in order."""

Announce = Callable[[str], None]
"""Told the phase that is about to begin."""


@dataclass(frozen=True)
class ColdStart:
    """What came of it."""

    operation: Operation
    stages: NamedStages
    elapsed_ns: int  # by two stamps of its own: the difference to the sum of the stages is the residual


def cold_start(runner: Runner, job: Job, slots: Sequence[Arrays], announce: Announce, clock: Clock) -> ColdStart:
    """Load, prepare, compile, first call. The operation's own construction belongs to no phase: it is in the residual."""
    announce("load")
    started = clock()
    stages = _named("load", runner.load(job))
    announce("prepare")
    stages += _named("prepare", runner.prepare())
    announce("compile")
    operation = runner.operation(job.operation, slots)
    check_members(operation, Operation)
    stages += _named("compile", operation.compile())
    if all(phase != "first_call" for phase, _, _ in stages):
        announce("first_call")
        stages += _first_call(operation, clock)
    return ColdStart(operation, stages, clock() - started)


def reasons_without_stages(stages: NamedStages, not_applicable: Mapping[str, str]) -> dict[str, str]:
    """For each phase that has no stage, why: the runner's reason, or that it gave neither."""
    timed = {phase for phase, _, _ in stages}
    return {
        phase: not_applicable.get(phase, f"the runner returned no stages of {phase} and no reason")
        for phase in PHASES
        if phase not in timed
    }


def _named(returned_by: str, stages: Stages) -> NamedStages:
    """A stage's phase: the part of its name before the dot, its whole name, or else the phase that returned it.

    Raises TypeError for what is not in whole nanoseconds: seconds would pass for no time at all.
    """
    named = []
    for name, elapsed_ns in stages:
        phase, _, detail = name.partition(".")
        if phase not in PHASES:
            phase, detail = returned_by, name
        named.append((phase, detail or phase, _whole(elapsed_ns, f"{returned_by}() returned the stage {name!r}")))
    return named


def _whole(elapsed_ns: object, where: str) -> int:
    try:
        return operator.index(elapsed_ns)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where} of {elapsed_ns!r}; a stage's time is in whole nanoseconds") from None


def _first_call(operation: Operation, clock: Clock) -> NamedStages:
    """Where a begin is work of its own, as the prompt is to decode, it is a stage of its own."""
    started = clock()
    operation.begin(0)
    begun = clock()
    operation.call()
    operation.wait()
    ended = clock()
    if operation.calls_per_begin is None:
        return [("first_call", "first_call", ended - started)]
    return [("first_call", "begin", begun - started), ("first_call", "call", ended - begun)]
