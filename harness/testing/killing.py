"""Kills launches in the midst of their phases, and looks for what they have left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.executors.base import Executor, LaunchSpec
from harness.launch import LaunchEndedError, RunningLaunch
from harness.protocol import Import, Job
from harness.testing.judging import Unjudged
from harness.testing.outside import Killed

KILL_IN = ("load", "prepare", "compile", "steady", "memory")
"""Phases that every launch comes to."""

INTO_THE_PHASE_S = 0.1
"""How far: so that children which the phase starts are under way."""

Prepare = Callable[[str], tuple[LaunchSpec, Job]]
"""A launch of its own, by a name for its folder."""


def killed(executor: Executor, prepare: Prepare, phases: Sequence[str], timeout_s: float) -> Killed:
    """One launch for each phase. Raises Unjudged where one ended before it could be killed."""
    if not phases:
        raise Unjudged("no launch was killed: no phase was named")
    return Killed({phase: _left(executor, *prepare(f"killed-in-{phase}"), phase, timeout_s) for phase in phases})


def _left(executor: Executor, launch: LaunchSpec, job: Job, phase: str, timeout_s: float) -> Sequence[str]:
    try:
        running = RunningLaunch(executor, launch, "harness.worker.conformance")
        try:
            running.send(Import(job))
            running.await_phase(phase, timeout_s)
            time.sleep(INTO_THE_PHASE_S)
        finally:
            running.end()
    except LaunchEndedError as ended:
        raise Unjudged(f"a launch ended before it was killed in {phase}: {ended.error.message}") from None
    return executor.survivors(launch)
