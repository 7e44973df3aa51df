"""Rows of a dataset: the layout of transformers' benchmark_v2 with all of ours beside it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store.factories import a_cell, a_failure, a_launch, a_result

from harness.hub.rows import Form, columns, key_of, timestamp_of, to_line
from harness.interchange import benchmark_v2
from harness.interchange.raw import RawArray, RawLaunch, RawRound
from harness.model import Cell, CellError, HarnessError, Measurements, Metadata, Result, Status

RAW = RawLaunch(
    record=a_launch(),
    samples=[
        RawRound(index=0, arrays=[RawArray(name="total_ns", values=[5, 7]), RawArray(name="compiled", values=[0, 0])])
    ],
    gpu=None,
)


def row(result: Result, *raw: RawLaunch) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(to_line(result, raw or None))
    return told


def test_a_row_has_the_four_parts_of_benchmark_v2() -> None:
    assert list(row(a_result())) == ["benchmark_config_hash", "config", "measurements", "metadata"]


def test_each_part_has_their_fields_and_all_of_ours() -> None:
    told = row(a_result())
    for part, theirs, ours in (
        ("config", benchmark_v2.Config, Cell),
        ("measurements", benchmark_v2.Measurements, Measurements),
        ("metadata", benchmark_v2.Metadata, Metadata),
    ):
        assert {*theirs.model_fields, *ours.model_fields} <= set(told[part])


def test_our_fields_have_our_values_and_theirs_theirs() -> None:
    told = row(a_result(a_cell(batch_size=8), measurements=Measurements(median_latency_s=0.5, samples=9)))
    assert (told["config"]["batch_size"], told["config"]["backend"]) == (8, "eager")
    assert (told["measurements"]["median_latency_s"], told["config"]["measurement_iterations"]) == (0.5, 9)


def test_a_failure_is_told_whole() -> None:
    told = row(a_failure())["metadata"]
    assert (told["status"], told["success"]) == ("failed", False)
    assert told["error"] == {"type": "RuntimeError", "message": "no kernel for this shape", "stage": "load"}


def test_what_json_has_no_word_for_is_null() -> None:
    assert row(a_result(measurements=Measurements(parity_max_abs=math.inf)))["measurements"]["parity_max_abs"] is None


def test_raw_samples_are_in_full_rows_only() -> None:
    assert "raw" not in row(a_result())["measurements"]
    raw = row(a_result(), RAW)["measurements"]["raw"]
    assert raw[0]["samples"][0]["arrays"][0] == {"name": "total_ns", "values": [5, 7]}
    assert raw[0]["record"]["launch_id"] == "launch-1"
    assert row(a_result(), RAW)["measurements"]["e2e_latency"] == [5e-9, 7e-9]


@settings(max_examples=20)
@given(st.text(max_size=20))
def test_a_row_is_one_line_in_the_shape_of_its_columns(text: str) -> None:
    result = a_result(details={text: text}, error=CellError(type=text, message=text))
    line = to_line(result)
    assert line.encode().splitlines() == [line.encode()[:-1]]
    told = json.loads(line)
    assert {part: set(fields) for part, fields in told.items() if isinstance(fields, dict)} == {
        part: set(fields) for part, fields in columns(Form.SUMMARIZED).items() if isinstance(fields, dict)
    }
    assert json.loads(told["metadata"]["details"]) == {text: text}


def test_key_and_time_are_read_back_from_a_row() -> None:
    result = a_result(status=Status.OK)
    line = to_line(result).encode()
    assert (key_of(line, "x"), timestamp_of(line, "x")) == (result.key, result.metadata.timestamp)


@pytest.mark.parametrize("line", [b"{", b"3", b"[]", b'{"metadata": 3}', b"\xff"])
def test_what_is_no_row_is_refused_with_its_place(line: bytes) -> None:
    with pytest.raises(HarnessError, match="here in the dataset holds what is no result"):
        timestamp_of(line, "here")
