"""Flat rows: the columns scripts rely on, nulls that stay null, text that survives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store.factories import a_cell, a_failure, a_result
from store.strategies import records

from harness.interchange.reading import read
from harness.model import HarnessError, ImportedResult, Result, Status
from harness.report.export import COLUMNS, export, row
from report.cases import eager, measured, ort

PROMISED = [
    "key",
    "status",
    "model",
    "task",
    "backend",
    "device",
    "dtype",
    "batch_size",
    "sequence_length",
    "threads",
    "import_s",
    "load_s",
    "prepare_s",
    "compile_s",
    "first_call_s",
    "cold_start_s",
    "median_latency_s",
    "latency_iqr_s",
    "throughput",
    "throughput_unit",
    "break_even_calls",
    "parity_max_abs",
    "parity_passed",
    "peak_rss_bytes",
    "launches",
    "samples",
    "error_type",
    "error_stage",
]


def from_csv(*results: Result) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(export(results, "csv")), newline="")))


def from_jsonl(*results: Result | ImportedResult) -> list[dict[str, object]]:
    return [json.loads(line) for line in export(results, "jsonl")]


def test_the_promised_columns_come_first_and_in_order() -> None:
    assert list(COLUMNS)[: len(PROMISED)] == PROMISED


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_both_forms_have_the_same_columns(form: str) -> None:
    (line,) = from_csv(ort()) if form == "csv" else from_jsonl(ort())
    assert list(line) == list(COLUMNS)


def test_a_row_has_the_numbers_of_the_result() -> None:
    (line,) = from_jsonl(ort())
    expected = {"backend": "onnxruntime", "median_latency_s": 0.02531, "break_even": "after 285", "parity_passed": True}
    assert {name: line[name] for name in expected} == expected
    assert (line["status"], line["error_type"], line["launches"]) == ("ok", None, 2)


def test_unknown_is_null_or_empty_and_never_zero() -> None:
    unsupported = a_result(status=Status.UNSUPPORTED, reason="too long")
    unknown = [
        name for name in PROMISED if name.endswith("_s") or name.startswith(("throughput", "break", "parity", "peak"))
    ]
    (as_json,), (as_csv,) = from_jsonl(unsupported), from_csv(unsupported)
    assert {as_json[name] for name in unknown} == {None}
    assert {as_csv[name] for name in unknown} == {""}
    assert (as_json["launches"], as_csv["launches"]) == (0, "0")


def test_a_failure_says_what_and_where() -> None:
    (line,) = from_csv(a_failure(message="no\nkernel"))
    assert (line["error_type"], line["error_stage"], line["error_message"]) == ("RuntimeError", "load", "no\nkernel")


def test_mappings_are_columns_of_json() -> None:
    (line,) = from_csv(a_result(a_cell(backend="onnxruntime", options={"z": None, "level": "basic"})))
    assert json.loads(line["options"]) == {"level": "basic", "z": None}


def test_truth_is_written_as_json_writes_it() -> None:
    lines = from_csv(eager(), a_result(measurements=measured({"parity_passed": False})), a_failure())
    assert [line["parity_passed"] for line in lines] == ["true", "false", ""]


@pytest.mark.parametrize(
    "text", ["a,b", 'say "no"', "one\ntwo", "one\rtwo", "one\r\ntwo", "größe 😀 \u2028", " padded ", "\x00"]
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_text_survives(form: str, text: str) -> None:
    result = a_failure(message=text)
    (line,) = from_csv(result) if form == "csv" else from_jsonl(result)
    assert line["error_message"] == text


@settings(max_examples=30)
@given(st.lists(records(Result), max_size=3))
def test_any_results_are_a_row_each_in_both_forms(results: list[Result]) -> None:
    as_json, as_csv = from_jsonl(*results), from_csv(*results)
    assert as_json == [json.loads(json.dumps(row(result))) for result in results]
    assert [line["key"] for line in as_csv] == [result.key for result in results]


def test_lines_end_in_a_plain_newline() -> None:
    lines = list(export([eager(), ort()], "csv"))
    assert len(lines) == 3
    assert all(line.endswith("\n") and "\r" not in line for line in lines)


def test_no_results_are_the_headings_alone() -> None:
    assert "".join(export([], "csv")).strip().split(",") == list(COLUMNS)
    assert list(export([], "jsonl")) == []


def test_another_form_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(HarnessError, match="give csv or jsonl; did you mean 'jsonl'"):
        export([], "json")


def test_a_result_of_another_tool_is_a_row_with_its_origin_and_what_it_lacks() -> None:
    imported = read(Path(__file__).parents[1] / "interchange" / "benchmark.json")
    ours, theirs = from_jsonl(eager(), *imported)
    assert (ours["origin"], ours["lacks"]) == (None, None)
    assert (theirs["origin"], theirs["status"]) == ("optimum-benchmark", "unverified")
    assert theirs["median_latency_s"] == imported[0].measurements.median_latency_s
    assert json.loads(str(theirs["lacks"])) == imported[0].lacks
    assert theirs["host_hash"] is None
