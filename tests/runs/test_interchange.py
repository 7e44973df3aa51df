"""Forms of other tools at the command line: read, told apart, and written."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import duckdb
import pytest
from run_bench import Bench

GOLDEN = Path(__file__).parents[1] / "interchange"


@pytest.fixture
def imported(bench: Bench) -> Bench:
    done = bench.harness("import", GOLDEN / "benchmark_v2.json", GOLDEN / "benchmark.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 results read, 3 of them new")
    return bench


def test_imported_files_are_reported_apart_and_only_once(imported: Bench) -> None:
    again = imported.harness("import", GOLDEN / "benchmark.json")
    assert again.stdout.startswith("1 result read, 0 of them new")
    report = imported.harness("report", "results").stdout
    assert "No results." in report
    assert report.count("optimum-benchmark 0.6.0: benchmark.json") == 1
    assert "not ranked" in report


def test_imported_results_are_rows_that_name_their_tool(imported: Bench) -> None:
    exported = imported.harness("export", "results").stdout
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert sorted(row["origin"] for row in rows) == ["optimum-benchmark"] + ["transformers benchmark_v2"] * 2
    assert "ok" not in {row["status"] for row in rows}


def test_a_file_that_is_none_imports_nothing_of_the_others_either(bench: Bench) -> None:
    (bench.folder / "odd.json").write_text("{}")
    done = bench.harness("import", GOLDEN / "benchmark.json", "odd.json")
    assert done.returncode == 2
    assert "odd.json is of no form that is known" in done.stderr
    assert not bench.results.exists()


@pytest.mark.parametrize("option", [["--output", "rows.parquet"], []])
def test_parquet_goes_to_a_file_or_a_pipe(imported: Bench, option: list[str]) -> None:
    file = imported.folder / "rows.parquet"
    command = imported.command("export", "results", "--format", "parquet", *option)
    with file.open("ab") as pipe:
        done = subprocess.run(
            command, cwd=imported.folder, env=imported.environment(), stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 0, done.stderr
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{file}'").fetchall() == [(3,)]


def test_our_results_are_written_in_the_form_of_benchmark_v2_and_read_by_that_name(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run().returncode == 0
    done = bench.harness("export", "results", "--format", "benchmark-v2", "-o", "theirs.json")
    assert (done.returncode, done.stdout) == (0, "")
    entries = json.loads((bench.folder / "theirs.json").read_text())
    assert set(entries) == {result.key for result in bench.history()}
    assert all(len(entry["measurements"]["e2e_latency"]) > 0 for entry in entries.values())


def test_an_output_that_cannot_be_written_is_told(imported: Bench) -> None:
    done = imported.harness("export", "results", "-o", "nowhere/rows.csv")
    assert done.returncode == 2
    assert "nowhere/rows.csv cannot be written" in done.stderr
