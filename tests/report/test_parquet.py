"""The flat rows as Parquet: the same values as in JSONL, each in a column of its field's type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from store.factories import a_cell, a_failure, a_result

from harness.interchange.reading import read
from harness.model import ImportedResult, Result
from harness.report.export import COLUMNS, export
from harness.report.parquet import write_parquet
from report.cases import eager, ort

GOLDEN = Path(__file__).parents[1] / "interchange" / "benchmark.json"


def written(file: Path, *results: Result | ImportedResult) -> list[dict[str, Any]]:
    write_parquet(results, file)
    with duckdb.connect() as connection:
        found = connection.execute("SELECT * FROM read_parquet(?)", [str(file)])
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, values, strict=True)) for values in found.fetchall()]


def types(file: Path) -> dict[str, str]:
    with duckdb.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "it's rows.parquet"


def test_values_are_those_of_jsonl(file: Path) -> None:
    results = [eager(), ort({"options": {"level": "all"}}), a_failure(message="größe\n😀 \x00"), *read(GOLDEN)]
    assert written(file, *results) == [json.loads(line) for line in export(results, "jsonl")]


def test_columns_are_in_order_and_of_their_fields_types(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    write_parquet([a_result()], file)  # nearly all of it null
    told = types(file)
    assert list(told) == list(COLUMNS)
    assert (told["median_latency_s"], told["batch_size"], told["parity_passed"]) == ("DOUBLE", "BIGINT", "BOOLEAN")
    assert {told[name] for name in ("status", "label", "options", "timestamp", "origin", "lacks")} == {"VARCHAR"}


def test_no_results_are_a_file_without_rows(file: Path) -> None:
    assert written(file) == []


def test_nothing_is_left_beside_the_file(file: Path) -> None:
    written(file, a_result(a_cell(batch_size=2)))
    assert list(file.parent.iterdir()) == [file]
