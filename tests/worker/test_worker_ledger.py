"""What was compiled after the cold start, and for which shapes."""

from __future__ import annotations

import numpy as np
from worker_driver import ClockedOperation, ManualClock

from harness.worker.ledger import CompileLedger, shape_of
from harness.worker.timing import ThroughputStretch, TimingLoop

MS = 1_000_000
S = 1_000 * MS
SLOTS = [{"input_ids": np.zeros((1, tokens), np.int64)} for tokens in (4, 8)]
SHORT, LONG = "input_ids 1x4", "input_ids 1x8"


def compiling_calls(calls: int, ledger: CompileLedger, compiles_in: set[int]) -> None:
    """Calls of 1 ms, on the slots in turn; in some of them something is compiled for 5 s."""
    clock = ManualClock()
    operation = ClockedOperation(clock, call_ns=lambda n: 5_000 * MS if n in compiles_in else MS)

    def compile_in_some() -> None:
        operation.compiled += operation.calls in compiles_in

    operation.on_call = compile_in_some
    TimingLoop(operation, len(SLOTS), operation.compilations, clock, ledger.add).latency(calls)


def test_a_shape_is_every_input_by_name() -> None:
    slot = {"input_ids": np.zeros((2, 3)), "attention_mask": np.zeros((2, 3)), "temperature": np.zeros(())}
    assert shape_of(slot) == "attention_mask 2x3, input_ids 2x3, temperature scalar"


def test_the_ledger_has_count_and_time_by_shape() -> None:
    ledger = CompileLedger(SLOTS)
    compiling_calls(6, ledger, {1, 2, 3})
    assert ledger.take() == ({LONG: 2, SHORT: 1}, {LONG: 10_000 * MS, SHORT: 5_000 * MS})


def test_a_new_shape_each_call_is_an_entry_each() -> None:
    ledger = CompileLedger(SLOTS)
    compiling_calls(2, ledger, {0, 1})
    assert ledger.take()[0] == {SHORT: 1, LONG: 1}


def test_what_was_taken_is_not_told_again() -> None:
    ledger = CompileLedger(SLOTS)
    compiling_calls(2, ledger, {0})
    ledger.take()
    assert ledger.take() == ({}, {})


def test_calls_back_to_back_tell_a_count_and_no_time() -> None:
    ledger = CompileLedger(SLOTS)
    ledger.add(ThroughputStretch(calls=10, elapsed_ns=S, expected_ns=S, compiled=0))
    assert ledger.take() == ({}, {})
    ledger.add(ThroughputStretch(calls=10, elapsed_ns=S, expected_ns=S, compiled=3))
    assert ledger.take() == ({f"{SHORT} or {LONG}": 3}, {f"{SHORT} or {LONG}": None})
