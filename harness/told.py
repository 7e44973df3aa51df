"""What a worker has told, as it is stored: from the protocol's events to records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

from harness.disturbance import Mode, Pass
from harness.model import CompileRecord, RoundRecord, WarmUpRecord
from harness.protocol import Samples, WarmedUp

NS = 1_000_000_000

UNSETTLED = {
    "recompiling": "it keeps recompiling: {compilations} compilations by then",
    "short": "that is too short for three windows; raise warm_up_seconds",
    "disturbed": "the machine did not keep still either: its speed, or how much of it other processes had, changed meanwhile",
    "unsteady": "nothing was compiled, and the machine kept still",
}
"""Reason of an unsettled warm-up -> in words."""


def round_record(samples: Samples, pass_: Pass) -> RoundRecord:
    """A round as it came, not judged yet."""
    return RoundRecord(
        index=samples.index,
        mode=cast(Mode, samples.mode),
        calls=samples.calls,
        settle_calls=samples.settle_calls,
        elapsed_ns=samples.elapsed_ns,
        compilations=samples.compilations,
        file=samples.file,
        marks=samples.marks,
        pass_index=pass_.index,
        repeats=pass_.repeats,
        compiled=samples.compiled,
        probe_ns=samples.probe_ns,
        foreign_share=samples.foreign_share,
        stops=samples.stops,
    )


def warm_up_record(warmed: WarmedUp) -> WarmUpRecord:
    """Its compilations by shape are apart: `compile_records`."""
    return WarmUpRecord(
        settled=warmed.settled,
        calls=warmed.calls,
        elapsed_ns=warmed.elapsed_ns,
        compilations=warmed.compilations,
        discarded_ns=warmed.discarded_ns,
        disturbed_calls=warmed.disturbed_calls,
        reason=warmed.reason,  # pydantic refuses any other word
    )


def unsettled(warm_up: WarmUpRecord) -> str:
    """Why a launch is `unstable`, in one sentence."""
    elapsed_s = warm_up.elapsed_ns / NS
    why = UNSETTLED[warm_up.reason or "unsteady"].format(compilations=warm_up.compilations)
    return f"latency did not settle in {warm_up.calls} calls ({elapsed_s:.0f} s), twice: {why}"


def compile_records(phase: Literal["warmup", "steady"], told: WarmedUp | Samples) -> list[CompileRecord]:
    """What was compiled during these calls, one record a shape."""
    return [
        CompileRecord(shape=shape, phase=phase, compilations=count, elapsed_ns=told.compiled_ns[shape])
        for shape, count in told.compiled_count.items()
    ]


def compile_ledger(records: Iterable[CompileRecord]) -> list[CompileRecord]:
    """One record a phase and shape: counts and times are added up."""
    ledger: dict[tuple[str, str], CompileRecord] = {}
    for record in records:
        key = (record.phase, record.shape)
        ledger[key] = _added(ledger[key], record) if key in ledger else record
    return list(ledger.values())


def _added(one: CompileRecord, other: CompileRecord) -> CompileRecord:
    times = (one.elapsed_ns, other.elapsed_ns)
    known = [time_ns for time_ns in times if time_ns is not None]
    sums = {
        "compilations": one.compilations + other.compilations,
        "elapsed_ns": sum(known) if len(known) == 2 else None,
    }
    return one.model_copy(update=sums)
