"""The terminal's tables: exact output beside the input, and what must hold for any numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from store.factories import a_cell, a_failure, a_result

from harness.model import Measurements, PlannedCell, Result, Status
from harness.report import generation
from harness.report.terminal import plan_rows, render_plan, render_results
from report.cases import CASES, EAGER, ORT, eager, golden, measured, ort, unranked, unsupported


@pytest.mark.parametrize("name", CASES)
def test_output_is_exactly_the_text_beside_the_input(name: str) -> None:
    assert CASES[name]() == golden(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in CASES if name != "in_colour"])
def test_no_line_is_wider_than_80_columns_or_ends_in_spaces(name: str) -> None:
    for line in CASES[name]().splitlines():
        assert cell_len(line) <= 80
        assert line == line.rstrip()


@pytest.mark.parametrize("variable", ["NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"])
def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    for name in ("quick", "in_colour"):
        assert CASES[name]() == golden(name).read_text(encoding="utf-8")


def test_colour_is_the_only_difference_that_colour_makes() -> None:
    results = [eager(), ort(), unranked("int8", Status.MISMATCH, reason="threads")]
    assert re.sub(r"\x1b\[[0-9;]*m", "", render_results(results, colour=True)) == render_results(results)


SECONDS = st.none() | st.floats(1e-7, 99_999)
NUMBERS = st.fixed_dictionaries(
    {
        **dict.fromkeys(
            ("load_s", "prepare_s", "compile_s", "first_call_s", "cold_start_s", "median_latency_s"), SECONDS
        ),
        "throughput": st.none() | st.floats(0.01, 1e9),
        "ratio_to_baseline": st.none() | st.floats(1e-6, 9_999),
        "parity_max_abs": st.none() | st.sampled_from([0.0, float("inf"), float("nan")]) | st.floats(1e-12, 1e9),
        "break_even": st.sampled_from([None, "always", "never", "after 12", "until 999999", "after 123456789"]),
        "reasons": st.sampled_from([{}, {"load_s": "in session", "throughput": "too short\x1b[2J to time"}]),
    }
)
STATUSES = st.sampled_from([status for status in Status if not status.is_fine])


@given(st.lists(NUMBERS, min_size=1, max_size=4), STATUSES)
def test_any_numbers_fit_in_80_columns_and_every_backend_is_a_row(numbers: list[dict[str, Any]], last: Status) -> None:
    statuses = [Status.OK] * (len(numbers) - 1) + [last]
    results = [
        a_result(a_cell(backend=f"backend{index}"), status, measurements=measured(each), reason="it was so")
        for index, (each, status) in enumerate(zip(numbers, statuses, strict=True))
    ]
    text = render_results(results)
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    assert all(re.search(rf"^{result.config.label}\b", text, re.MULTILINE) for result in results)
    assert f"{last}: it was so" in text
    assert "\x1b" not in text


def rows_in_order(results: list[Result]) -> list[str]:
    lines = render_results(results).splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("backend"))
    return [line.split()[0] for line in lines[heading + 1 :] if line and not line.startswith(" ")]


def with_latency(backend: str, latency_s: float, status: Status = Status.OK) -> Result:
    numbers = measured({**EAGER, "reasons": {}, "median_latency_s": latency_s})
    return a_result(a_cell(backend=backend), status, measurements=numbers)


def test_the_ranked_come_by_latency_then_the_timed_unranked_then_the_rest() -> None:
    results = [
        unsupported("none"),
        with_latency("fastest-but-wrong", 0.1, Status.PARITY_FAILED),
        with_latency("slow", 3.0),
        a_failure(a_cell(backend="broken")),
        with_latency("fast", 1.0),
        with_latency("middling", 2.0),
    ]
    expected = ["fast", "middling", "slow", "fastest-but-wrong", "none", "broken"]
    assert [row for row in rows_in_order(results) if row in expected] == expected


def test_only_the_best_of_several_ranked_is_marked() -> None:
    wrong = with_latency("wrong", 0.1, Status.MISMATCH)
    assert "ok ★" not in render_results([with_latency("alone", 1.0), wrong])
    marked = render_results([with_latency("slow", 2.0), with_latency("fast", 1.0), wrong])
    assert re.search(r"^fast .* ok ★$", marked, re.MULTILINE)
    assert marked.count("ok ★") == 1


@pytest.mark.parametrize(
    ("break_even", "sentence"),
    [
        ("always", "it leads from the first call on."),
        ("after 1234", "it leads from call 1,234 on."),
        ("until 12", "it leads up to call 12 only."),
        ("never", "it never leads."),
    ],
)
def test_the_verdict_says_when_the_cold_start_has_paid_off(break_even: str, sentence: str) -> None:
    text = " ".join(render_results([eager(), ort(break_even=break_even)]).split())
    assert f"Cold start included (6.56s against 520ms), {sentence}" in text


def test_an_unranked_baseline_is_not_what_the_verdict_compares_with() -> None:
    doubtful = a_result(status=Status.MISMATCH, measurements=measured(EAGER), reason="threads")
    assert "onnxruntime alone is ranked" in render_results([doubtful, ort()])


def test_workloads_of_other_sizes_are_apart() -> None:
    text = render_results([eager(), eager(batch_size=8), ort()])
    assert text.count("alone is ranked") == 1
    assert text.count("onnxruntime leads") == 1


def test_a_protocol_of_its_own_is_a_comparison_of_its_own() -> None:
    other = ort()
    hashes = other.metadata.hashes.model_copy(update={"protocol_hash": "9" * 64})
    moved = other.model_copy(update={"metadata": other.metadata.model_copy(update={"hashes": hashes})})
    text = render_results([eager(), moved])
    assert text.count("alone is ranked") == 2
    assert "protocol 999999999999" in text


def test_a_reason_of_pages_is_cut_and_one_of_many_lines_is_one() -> None:
    text = render_results([a_failure(message="first\n" * 1000)])
    assert "first first" in text
    assert "…" in text
    assert len(text) < 600


def test_a_plan_as_rows_has_each_cell_with_its_key_and_what_becomes_of_it() -> None:
    cell = a_cell(backend="onnxruntime", options={"level": "basic"})
    runs, does_not = plan_rows([PlannedCell(cell), PlannedCell(cell, Status.UNSUPPORTED, "too long")])
    assert json.loads(json.dumps(runs)) == {
        "key": cell.key,
        "label": "onnxruntime[level=basic]",
        "model": cell.model,
        "checkpoint": cell.checkpoint,
        "task": "feature-extraction",
        "operation": "forward",
        "batch_size": 1,
        "sequence_length": 128,
        "padding": "none",
        "image_size": None,
        "audio_seconds": None,
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "new_tokens": None,
        "do_sample": False,
        "num_beams": 1,
        "stop_at_eos": False,
        "compile_cache": "cold",
        "backend": "onnxruntime",
        "options": {"level": "basic"},
        "input_seed": 0,
        "status": "run",
        "reason": None,
    }
    assert (does_not["status"], does_not["reason"]) == ("unsupported", "too long")


def test_an_empty_plan_says_so() -> None:
    assert render_plan([]) == "0 cells: nothing to run\n"


def test_a_timed_result_without_latency_is_ranked_below_those_with_one() -> None:
    short = {**ORT, "median_latency_s": None, "reasons": {"median_latency_s": "under 100 µs"}}
    results = [a_result(a_cell(backend="short"), measurements=measured(short)), with_latency("long", 9.0)]
    assert rows_in_order(results)[:2] == ["long", "short"]


def test_a_result_without_any_number_keeps_its_row_though_it_is_ok() -> None:
    text = render_results([eager(), a_result(a_cell(backend="empty"), measurements=Measurements())])
    assert re.search(r"^empty .* ok$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("operation", "batch_size", "said"),
    [
        ("forward", 8, "a call"),
        ("prefill", 1, "a prompt"),
        ("prefill", 8, "for 8 prompts"),
        ("decode", 8, "for a token of 8 rows"),
        ("generate", 2, "for 2 texts"),
    ],
)
def test_the_latency_of_a_batch_is_never_told_as_that_of_one(operation: str, batch_size: int, said: str) -> None:
    assert generation.call(a_cell(operation=operation, batch_size=batch_size)) == said
