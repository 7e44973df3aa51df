"""From what workers told to what is stored."""

from __future__ import annotations

import pytest

from harness.disturbance import Pass
from harness.model import CompileRecord, WarmUpRecord
from harness.protocol import Samples
from harness.told import compile_ledger, compile_records, round_record, unsettled

SAMPLES = Samples(
    index=3,
    mode="latency",
    calls=10,
    settle_calls=3,
    elapsed_ns=10_000,
    compilations=5,
    compiled=1,
    compiled_count={"input_ids 1x4": 2},
    compiled_ns={"input_ids 1x4": 700},
    probe_ns={"arithmetic": [1, 2]},
    foreign_share=0.25,
    stops=["stopped"],
    bound=[0],
    unbound_reason=None,
    file="round-3.npz",
)


def test_a_round_is_stored_as_told_with_its_place_among_the_passes_and_not_judged() -> None:
    record = round_record(SAMPLES, Pass(4, "latency", repeats=1))
    assert (record.index, record.pass_index, record.repeats, record.file) == (3, 4, 1, "round-3.npz")
    assert (record.compiled, record.compilations, record.foreign_share) == (1, 5, 0.25)
    assert (record.probe_ns, record.stops) == ({"arithmetic": [1, 2]}, ["stopped"])
    assert (record.disturbances, record.disturbed) == ([], False)


def test_the_ledger_adds_up_what_one_shape_took_in_one_phase() -> None:
    rounds = compile_records("steady", SAMPLES) * 2
    warm_up = [CompileRecord(shape="input_ids 1x4", phase="warmup", compilations=1, elapsed_ns=50)]
    assert [(x.phase, x.compilations, x.elapsed_ns) for x in compile_ledger([*warm_up, *rounds])] == [
        ("warmup", 1, 50),
        ("steady", 4, 1_400),
    ]


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    known = CompileRecord(shape="s", phase="steady", compilations=1, elapsed_ns=50)
    (entry,) = compile_ledger([known, known.model_copy(update={"elapsed_ns": None}), known])
    assert (entry.compilations, entry.elapsed_ns) == (3, None)


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("recompiling", "it keeps recompiling: 7 compilations by then"),
        ("short", "raise warm_up_seconds"),
        ("disturbed", "the machine did not keep still either"),
        ("unsteady", "the machine kept still"),
    ],
)
def test_each_reason_for_not_settling_has_words_of_its_own(reason: str, says: str) -> None:
    ended = WarmUpRecord(
        settled=False, calls=40, elapsed_ns=60_000_000_000, compilations=7, discarded_ns=[], reason=reason
    )
    assert unsettled(ended).startswith("latency did not settle in 40 calls (60 s), twice: ")
    assert says in unsettled(ended)
