"""Which rounds something else has disturbed, and which passes are repeated for it. Pure: no clock but the one it is given.

A round is judged by witnesses that know nothing of its backend: never by its latency, which is what is to be measured, nor by
context switches, which depend on the backend. Where one round of a pass is disturbed, the whole pass is, for all its launches:
leaving out the slow rounds of one backend only would be to choose its result.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness import stats
from harness.model import LaunchRecord, Protocol, RoundRecord
from harness.tasks import MARKED_OPERATIONS

Mode = Literal["latency", "throughput", "marked"]
Rounds = Sequence[Sequence[RoundRecord]]
"""Of each launch of a block."""

KEEPS_RECOMPILING = 0.5
"""A launch that compiled in more than this part of its latency rounds has no steady state."""


@dataclass(frozen=True)
class Pass:
    """One round of every launch and, in the mirrored order, another one."""

    index: int  # in the block
    mode: Mode
    repeats: int | None = None  # index of the planned pass that this one is made again for


def passes(
    settings: Protocol, operation: str, rounds: Callable[[], Rounds], clock: Callable[[], float] = time.monotonic
) -> Iterator[Pass]:
    """Those that are planned; then, while the budget lasts, again those that were disturbed. `rounds`: what there is so far."""
    modes = _planned_modes(settings, operation)
    yield from (Pass(index, mode) for index, mode in enumerate(modes))
    began_s = clock()
    for index in range(len(modes), len(modes) + settings.repeats):
        outstanding = disturbed_passes(judged(rounds(), settings))
        if not outstanding or clock() - began_s >= settings.repeat_seconds:
            return
        yield Pass(index, modes[outstanding[0]], repeats=outstanding[0])


def _planned_modes(settings: Protocol, operation: str) -> list[Mode]:
    """Stamps come last: what they cost must not be felt in the rounds that have none."""
    modes: list[Mode] = ["latency"] * settings.passes
    modes += ["throughput"] * settings.throughput_rounds
    if operation in MARKED_OPERATIONS:
        modes += ["marked"] * settings.marked_rounds
    return modes


def order(pass_: Pass, launches: int, settings: Protocol, block_index: int) -> list[int]:
    """A drawn permutation of the launches' positions and its mirror (A B B A): a linear drift weighs equally on all."""
    positions = list(range(launches))
    random.Random(f"{settings.seed}/{block_index}/{pass_.index}").shuffle(positions)
    return [*positions, *reversed(positions)]


def disturbed_passes(rounds: Rounds) -> list[int]:
    """Planned passes of which no version is undisturbed; first those that were tried least often. `rounds` are judged."""
    versions: dict[int, dict[int, bool]] = {}
    for each in (each for launch in rounds for each in launch):
        versions.setdefault(_planned(each), {})[each.pass_index] = each.disturbed
    return sorted(
        (index for index, tried in versions.items() if all(tried.values())), key=lambda i: (len(versions[i]), i)
    )


def judged(rounds: Rounds, settings: Protocol) -> list[list[RoundRecord]]:
    """The same rounds, each with what disturbed it, and marked where that is so of any round of its pass."""
    told = [_told(launch, settings) for launch in rounds]
    disturbed = {each.pass_index for launch in told for each in launch if each.disturbances}
    return [[each.model_copy(update={"disturbed": each.pass_index in disturbed}) for each in launch] for launch in told]


def recompiling(rounds: Sequence[RoundRecord]) -> str | None:
    """Why a launch has no steady state, where it kept compiling while it was measured."""
    latency = [each for each in rounds if each.mode == "latency"]
    compiling = [each for each in latency if each.compiled]
    if len(compiling) <= KEEPS_RECOMPILING * len(latency):
        return None
    return f"it keeps recompiling: in {len(compiling)} of {len(latency)} rounds, {rounds[-1].compilations} times in all"


def warning(launches: Sequence[LaunchRecord], settings: Protocol) -> str | None:
    """For people, where a workload's launches were disturbed more than repeating could mend: what was seen, and what helps."""
    rounds = [each for launch in launches for each in launch.rounds]
    left = _left_disturbed(launches)
    if not left:
        return None
    restless, consequence = _certainty(settings)
    causes = "; ".join(_causes(rounds))
    return (
        f"This machine was {restless}: {left} of {len(launches)} launches "
        f"have passes that were disturbed each time they were made ({causes}). Where a launch has nothing else, disturbed rounds "
        f"count: {consequence}. What helps: end what else is running, keep the machine from saving power or "
        "sleeping, give a virtual machine processors of its own; or raise `repeats` and `repeat_seconds` under `protocol`."
    )


def _certainty(settings: Protocol) -> tuple[str, str]:
    """What a restless machine keeps a run from, and what comes of that; a run for an indication has no intervals to widen."""
    if settings.blocks < stats.FEWEST:
        return "restless", "the indication is the weaker for it"
    wanted = f"ratios as certain as ±{settings.half_width:.1%}"
    return f"too restless for {wanted}", "intervals are wider, but still hold"


def _left_disturbed(launches: Sequence[LaunchRecord]) -> int:
    return sum(bool(disturbed_passes([launch.rounds])) for launch in launches)


def _causes(rounds: Sequence[RoundRecord]) -> list[str]:
    """What disturbed, most frequent first."""
    kinds = {
        "the probe's speed changed": sum(any("probe" in why for why in each.disturbances) for each in rounds),
        "other processes had the processors": sum(any("other" in why for why in each.disturbances) for each in rounds),
        "something stood still": sum(bool(each.stops) for each in rounds),
    }
    return [f"{kind} in {count} of {len(rounds)} rounds" for kind, count in _most_first(kinds) if count]


def _most_first(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _told(launch: Sequence[RoundRecord], settings: Protocol) -> list[RoundRecord]:
    usual = _usual_probe_ns(launch)
    return [
        each.model_copy(
            update={
                "disturbances": [
                    *_probe_moved(each, usual, settings.probe_tolerance),
                    *_others_busy(each, settings.foreign_tolerance),
                    *each.stops,
                    *_compiled_unseen(each),
                ]
            }
        )
        for each in launch
    ]


def _usual_probe_ns(launch: Sequence[RoundRecord]) -> dict[str, float]:
    """By kind, the median over the launch's rounds: each stack has a numpy, and so a speed of its own."""
    kinds = dict.fromkeys(kind for each in launch for kind in each.probe_ns)
    return {
        kind: statistics.median(_probe_ns(each, kind) for each in launch if kind in each.probe_ns) for kind in kinds
    }


def _probe_ns(each: RoundRecord, kind: str) -> float:
    return statistics.median(each.probe_ns[kind])


def _probe_moved(each: RoundRecord, usual: dict[str, float], tolerance: float) -> list[str]:
    changes_ns = {kind: _probe_ns(each, kind) - usual[kind] for kind in each.probe_ns}
    usually = "than usual in this block"
    return [
        f"the probe's {kind} took {abs(change_ns) / usual[kind]:.1%} {'longer' if change_ns > 0 else 'less'} {usually}"
        for kind, change_ns in changes_ns.items()
        if abs(change_ns) > tolerance * usual[kind]
    ]


def _others_busy(each: RoundRecord, tolerance: float) -> list[str]:
    if each.foreign_share is None or each.foreign_share <= tolerance:
        return []
    return [f"other processes had {each.foreign_share:.1%} of the processors"]


def _compiled_unseen(each: RoundRecord) -> list[str]:
    """A sample during which something was compiled is left out by itself; calls back to back cannot be."""
    return (
        [f"{each.compiled} compilations among calls back to back"]
        if each.mode == "throughput" and each.compiled
        else []
    )


def _planned(each: RoundRecord) -> int:
    return each.pass_index if each.repeats is None else each.repeats
