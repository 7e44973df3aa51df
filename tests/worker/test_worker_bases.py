"""The base classes: a runner made of them is one by the protocols, and what they give is what the protocols ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from harness.protocol import Job
from harness.worker.api import (
    RUNNERS_COUNTERS,
    Arrays,
    Counters,
    Facts,
    Mark,
    Operation,
    Runner,
    Stages,
    Transferring,
    Unsupported,
    cpu_counters,
    versions_of,
)
from harness.worker.bases import BaseForward, BaseRunner
from harness.worker.checks import ContractError, check_members

SLOTS = [{"input_ids": np.full((2, 3), slot), "attention_mask": np.ones((2, 3), np.int64)} for slot in (1, 2)]


class Doubling(BaseForward):
    def place(self, arrays: Arrays) -> Any:
        return np.array(arrays["input_ids"])

    def call(self, mark: Mark | None = None) -> None:
        self.last = {"last_hidden_state": 2 * self.inputs, "pooler_output": None}


class DoublingRunner(BaseRunner):
    operations: Mapping[str, Any] = {"forward": Doubling}

    def load(self, job: Job) -> Stages:
        self.job = job
        return ()

    def facts(self) -> Facts:
        return Facts({}, {})

    def memory(self, *, reset: bool = False) -> Counters:
        return cpu_counters("nobody counts")


@pytest.fixture
def runner(make_job: Callable[..., Job]) -> DoublingRunner:
    runner = DoublingRunner()
    runner.load(make_job())
    return runner


def prepared(runner: BaseRunner, slots: Sequence[Arrays] = SLOTS) -> Any:
    operation = runner.operation("forward", slots)
    assert operation.compile() == ()
    return operation


def test_what_they_leave_to_write_makes_a_runner_and_an_operation_that_takes_other_inputs(
    runner: DoublingRunner,
) -> None:
    check_members(runner, Runner)
    operation = prepared(runner)
    check_members(operation, Operation)
    assert isinstance(operation, Transferring)
    assert operation.calls_per_begin is None
    assert operation.items == {"samples": 2, "tokens": 6, "positions": 6}


def test_what_a_subclass_has_not_written_is_named() -> None:
    with pytest.raises(ContractError, match="BaseRunner is no Runner: it lacks load, facts, memory;"):
        check_members(BaseRunner(), Runner)


def test_a_call_is_on_the_input_chosen_or_transferred(runner: DoublingRunner) -> None:
    operation = prepared(runner)
    found = []
    for choose in (lambda: operation.begin(1), lambda: operation.transfer({"input_ids": np.full((2, 3), 5)})):
        choose()
        operation.call()
        operation.wait()
        found.append(float(operation.outputs()["last_hidden_state"].max()))
    assert found == [4, 10]


def test_outputs_are_those_compared_as_copies_in_float32(runner: DoublingRunner) -> None:
    operation = prepared(runner)
    operation.begin(0)
    operation.call()
    outputs = operation.outputs()
    operation.last["last_hidden_state"][:] = 7
    assert outputs.keys() == {"last_hidden_state"}
    assert outputs["last_hidden_state"].dtype == np.float32
    assert float(outputs["last_hidden_state"].max()) == 2


def test_another_operation_is_refused_with_those_that_there_are(runner: DoublingRunner) -> None:
    with pytest.raises(Unsupported, match=r"^operation decode: DoublingRunner runs forward$"):
        runner.operation("decode", SLOTS)


def test_after_close_neither_runner_nor_operation_holds_anything_and_none_has_to_have_begun(
    runner: DoublingRunner,
) -> None:
    operation = prepared(runner)
    runner.close()
    assert (vars(runner), vars(operation)) == ({}, {})
    DoublingRunner().close()


def test_counters_on_a_cpu_are_all_there_each_known_or_with_a_reason() -> None:
    counters = cpu_counters("nobody counts", weights_bytes=7, cache_bytes=3)
    assert counters.keys() == {*RUNNERS_COUNTERS, "cache_bytes"}
    assert (counters["weights_bytes"], counters["cache_bytes"]) == (7, 3)
    assert counters["device_context_bytes"] == "a CPU has no context"
    assert counters["allocated_bytes"] == "nobody counts"


def test_versions_are_those_of_the_distributions_installed() -> None:
    assert versions_of(("numpy",)) == {"numpy": np.__version__}
