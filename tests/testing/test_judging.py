"""What is made of what was seen: limits and messages, without a process."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.model import Backend, Cell, Option, ParityRecord, Stack
from harness.testing import CHECKS, Finding
from harness.testing.judging import Case, judge
from harness.testing.outside import Asked, Declared, Killed, Loaded, Paired, Sight
from harness.worker.observations import (
    Compared,
    Counted,
    Freed,
    Observation,
    Reshaped,
    Started,
    Told,
    Visited,
    Waited,
    Worked,
)

BACKEND = Backend(
    "tested",
    Stack("tested", "none:none", ()),
    runner="none:None",
    description="",
    options=(Option("mode", str, None, "of no consequence"),),
    expects={"attention": "eager"},
)
CELL = Cell(
    model="m", checkpoint="c", batch_size=2, sequence_length=4, threads=1, backend="tested", options={"mode": None}
)
INPUTS = {"input_ids": np.zeros((2, 4), np.int64)}
WHY_UNKNOWN = {
    "allocated_bytes": "counts nothing",
    "peak_allocated_bytes": "counts nothing",
    "peak_reserved_bytes": "counts nothing",
    "device_context_bytes": "has none",
}
EFFECTIVE = {
    "device": "cpu",
    "dtype": "float32",
    "threads": 1,
    "eval_mode": True,
    "inference_mode": True,
    "attention": "eager",
    "mode": "default",
}
STAGES = [["load", "read", 50], ["compile", "compile", 30], ["first_call", "first_call", 15]]
MATCHING = ParityRecord(when="before", passed=True, max_abs=2e-6)
GOOD: tuple[Observation | Sight, ...] = (
    Declared(()),
    Loaded("tested.plugin", None, ("tested",), ()),
    Asked("float13", "float13: there is no such dtype", {}),
    Paired(MATCHING),
    Killed({"load": (), "steady": ()}),
    Started(STAGES, {"prepare": "nothing to"}, 100, {"samples": 2, "tokens": 8}, 1),
    Told(EFFECTIVE, {"framework": "1"}, {}),
    Waited(call_ns=[100, 110, 90], outputs_ns=[12, 13, 10], again_ns=[10, 10, 10]),
    Visited(first_ns=[100, 120], second_ns=[95, 90]),
    Worked(threads=1.02),
    Compared(["logits: float32 (2, 4, 8)"], True, 1e-6, 0.5, kept=True, compilations=1),
    Counted({"weights_bytes": 90_000_000, **dict.fromkeys(WHY_UNKNOWN)}, WHY_UNKNOWN),
    Reshaped({"samples": 1, "tokens": 4}, 1, 2),
    Freed(200_000_000, 100_000_000),
)


def verdicts(*changed: Observation | Sight, cell: Cell = CELL) -> dict[str, Finding]:
    """Of a good launch in which a few things were seen otherwise."""
    seen = {type(observation): observation for observation in (*GOOD, *changed)}
    return {finding.check: finding for finding in judge(Case(BACKEND, cell, INPUTS, seen))}


def otherwise(kind: type[Any], **fields: Any) -> Any:
    """What was seen in a good launch, but for some fields."""
    return replace(next(observation for observation in GOOD if isinstance(observation, kind)), **fields)


def test_a_good_launch_passes_every_check() -> None:
    assert [finding.passed for finding in verdicts().values()] == [True] * len(CHECKS)


@pytest.mark.parametrize(
    ("seen", "check", "said"),
    [
        (
            otherwise(Told, effective={**EFFECTIVE, "attention": "sdpa"}),
            "facts",
            "attention: asked for 'eager', in effect 'sdpa'",
        ),
        (
            otherwise(Told, effective={k: v for k, v in EFFECTIVE.items() if k != "mode"}),
            "facts",
            "mode: declared and not",
        ),
        (otherwise(Told, versions={}), "facts", "versions: empty"),
        (otherwise(Started, reasons={}), "phases", "prepare: neither stages nor a reason"),
        (otherwise(Started, elapsed_ns=90), "phases", "the stages take 106% of the cold start. They overlap"),
        (otherwise(Started, elapsed_ns=200), "phases", "the stages take 48% of the cold start. Give a stage"),
        (otherwise(Started, items={"samples": 2, "tokens": 2}), "items", "'tokens': 8"),
        (otherwise(Started, items={}), "items", "has items {}"),
        (otherwise(Reshaped, items={"samples": 2}), "items", "a call on input_ids (1, 4) has items {'samples': 2}"),
        (otherwise(Waited, outputs_ns=[60, 60, 60]), "wait", "33% of a call's time"),
        (otherwise(Visited, second_ns=[2, 3]), "computes", "a second call on an input took 2% of the first"),
        (otherwise(Worked, threads=2.0), "threads", "1 threads were asked for, 2.0 have worked"),
        (otherwise(Compared, described=["a: float32 (1,)", "b: float32 (1,)"]), "outputs", "change from call to call"),
        (otherwise(Compared, described=["a: float16 (2, 4)"]), "outputs", "outputs are float16. Return float32"),
        (otherwise(Compared, finite=False), "outputs", "NaN or infinity"),
        (otherwise(Compared, kept=False), "outputs", "Return copies"),
        (otherwise(Compared, input_difference=0.0), "outputs", "different inputs have equal outputs"),
        (otherwise(Compared, repeat_difference=0.1), "outputs", "Switch dropout off"),
        (otherwise(Compared, compilations=2), "compilations", "went from 1 to 2 though no shape had changed"),
        (otherwise(Reshaped, compilations_after=1), "compilations", "stood at 1 while another shape was compiled"),
        (
            otherwise(Counted, reasons={**WHY_UNKNOWN, "allocated_bytes": "the runner does not tell it"}),
            "memory",
            "memory() leaves out allocated_bytes",
        ),
        (
            otherwise(Counted, bytes=dict.fromkeys(WHY_UNKNOWN)),
            "memory",
            "memory() leaves out weights_bytes",
        ),
        (
            otherwise(Counted, bytes={**dict.fromkeys(WHY_UNKNOWN), "weights_bytes": 9, "allocated_bytes": -1}),
            "memory",
            "allocated_bytes: below zero",
        ),
        (otherwise(Counted, bytes={**dict.fromkeys(WHY_UNKNOWN), "weights_bytes": 0}), "memory", "weights_bytes is 0"),
        (otherwise(Freed, held_after_bytes=900_000_000), "close", "close() gave back 0 MB, the weights are 90 MB"),
        (otherwise(Freed, held_after_bytes=170_000_000), "close", "close() gave back 30 MB, the weights are 90 MB"),
        (
            Declared(("it has no description. Say it", "no lock")),
            "registration",
            "it has no description. Say it; no lock",
        ),
        (otherwise(Loaded, heavy=("torch", "triton")), "import", "imports torch, triton. Import in none what"),
        (otherwise(Loaded, error="NameError: x"), "import", "tested.plugin cannot be imported in a process of its own"),
        (
            Asked("float13", None, {"dtype": "float13"}),
            "honesty",
            "it ran and told that it was in effect. Tell in facts()",
        ),
        (
            Paired(ParityRecord(when="before", passed=False, max_abs=1.0, message="slot 0: logits differs by 3")),
            "parity",
            "slot 0: logits differs by 3. Compare layer by layer",
        ),
        (Killed({"load": (), "compile": ("process 7 (cc1plus)",)}), "kill", "(compile: process 7 (cc1plus)). Start"),
    ],
)
def test_a_broken_promise_fails_its_check(seen: Observation | Sight, check: str, said: str) -> None:
    finding = verdicts(seen)[check]
    assert finding.passed is False
    assert said in finding.message


def test_a_runner_that_tells_what_is_in_effect_whatever_was_asked_for_is_honest() -> None:
    honesty = verdicts(Asked("float13", None, {"dtype": "float32"}))["honesty"]
    assert (honesty.passed, honesty.message) == (True, "asked for float13, which there is not, it told 'float32'")


def test_a_runner_that_refuses_what_there_is_not_is_honest_in_its_own_words() -> None:
    assert "it refused: float13: there is no such dtype" in verdicts()["honesty"].message


def test_a_launch_that_ended_early_says_how_and_that_this_comes_first() -> None:
    seen = {type(observation): observation for observation in GOOD}
    ended = judge(Case(BACKEND, CELL, INPUTS, seen, ending="crashed in close: exit code 3"))
    assert {finding.check for finding in ended if finding.passed is False} == {"ends"}
    (ends,) = (finding for finding in ended if finding.check == "ends")
    assert "everything was seen: crashed in close: exit code 3. Mend that first" in ends.message


@pytest.mark.parametrize(("operation", "tokens"), [("decode", 1), ("generate", 5), ("prefill", 4)])
def test_items_are_judged_by_what_the_operation_makes_of_a_row(operation: str, tokens: int) -> None:
    cell = CELL.model_copy(update={"operation": operation, "new_tokens": 5})
    right = (
        otherwise(Started, items={"samples": 2, "tokens": 2 * tokens}),
        otherwise(Reshaped, items={"samples": 1, "tokens": tokens}),
    )
    assert verdicts(*right, cell=cell)["items"].passed
    wrong = otherwise(Started, items={"samples": 2, "tokens": 2 * tokens + 1})
    assert verdicts(*right, wrong, cell=cell)["items"].passed is False


def test_parity_of_tokens_names_no_largest_difference() -> None:
    assert verdicts()["parity"].message == "outputs are the reference's, to 2e-06"
    tokens = Paired(ParityRecord(when="before", passed=True, max_abs=None))
    assert verdicts(tokens)["parity"].message == "outputs are the reference's"


def test_what_was_not_looked_at_has_the_reason_and_no_verdict() -> None:
    found = judge(Case(BACKEND, CELL, INPUTS, {}, unseen={Paired: "no reference here"}))
    by_check = {finding.check: finding for finding in found}
    assert by_check["parity"] == Finding("parity", None, "no reference here")
    assert by_check["facts"] == Finding("facts", None, "the launch did not come to it")


def test_the_page_names_every_check_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/conformance.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(CHECKS)


def test_a_backend_that_compiles_nothing_need_not_count() -> None:
    interpreting = otherwise(
        Started, stages=[["load", "read", 80], ["first_call", "first_call", 15]], reasons={"prepare": "", "compile": ""}
    )
    interpreting = replace(interpreting, compilations=0)  # type: ignore[call-arg]
    seen = (interpreting, otherwise(Compared, compilations=0), otherwise(Reshaped, compilations_after=1))
    assert verdicts(*seen)["compilations"] == Finding("compilations", True, "it compiles nothing, and says so")


def test_a_backend_that_has_a_compile_phase_has_to_count() -> None:
    seen = (
        otherwise(Started, compilations=0),
        otherwise(Compared, compilations=0),
        otherwise(Reshaped, compilations_before=0, compilations_after=0),
    )
    assert "compilations() stood at 0" in verdicts(*seen)["compilations"].message


@pytest.mark.parametrize("weights", [None, 1 << 20])
def test_weights_that_are_unknown_or_too_light_leave_close_without_a_verdict(weights: int | None) -> None:
    counted = otherwise(Counted, bytes={**dict.fromkeys(WHY_UNKNOWN), "weights_bytes": weights})
    close = verdicts(counted)["close"]
    assert close.passed is None
    assert "too few to see" in close.message


def test_what_is_freed_of_another_device_does_not_show_in_the_process() -> None:
    assert verdicts(cell=CELL.model_copy(update={"device": "cuda"}))["close"].passed is None
