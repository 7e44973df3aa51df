"""The quick matrix that ships, on the real model with the real stacks, measured for a moment only."""

from __future__ import annotations

import csv
import io
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import SHORT_PROTOCOL

ROOT = Path(__file__).parents[2]
HARNESS = Path(sys.executable).with_name("harness")

pytestmark = pytest.mark.timeout(1800)

EXECUTORS = [pytest.param("venv", marks=pytest.mark.stacks), pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(scope="module", params=EXECUTORS)
def rows(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[tuple[str, int], dict[str, Any]]:
    """Exported rows by backend and batch size."""
    folder = tmp_path_factory.mktemp("quick")
    matrix = yaml.safe_load((ROOT / "matrices" / "quick.yaml").read_text())
    matrix["protocol"] |= SHORT_PROTOCOL
    matrix["defaults"]["threads"] = (
        1  # beside other tests, two threads of a launch wait for each other more than they work
    )
    if request.param == "venv":  # whole in containers; half of it tells as much of environments
        matrix["matrix"]["batch_size"] = [1]
    (folder / "quick.yaml").write_text(yaml.safe_dump(matrix))
    if request.param == "docker":
        request.getfixturevalue("engine")
    command = [HARNESS, "run", "quick.yaml", "--executor", request.param, "--no-lease"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert max(map(len, run.stdout.splitlines())) <= 80
    exported = subprocess.run([HARNESS, "export", "results"], cwd=folder, capture_output=True, text=True, check=True)
    found = csv.DictReader(io.StringIO(exported.stdout))
    rows = {(row["backend"], int(row["batch_size"])): row for row in found}
    assert {row["executor"] for row in rows.values()} == {request.param}
    return rows


def test_every_backend_is_ok_at_every_batch_size(rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert {row["status"] for row in rows.values()} == {"ok"}
    names, sizes = {name for name, _ in rows}, {size for _, size in rows}
    assert {"eager", "sdpa", "compile", "onnxruntime", "flax"} <= names
    assert rows.keys() == set(itertools.product(names, sizes))
    assert sizes == ({1, 4} if next(iter(rows.values()))["executor"] == "docker" else {1})


def test_every_backend_agrees_with_the_reference_and_none_was_told_its_answer(
    rows: dict[tuple[str, int], dict[str, Any]],
) -> None:
    for (backend, _), row in rows.items():
        assert row["parity_passed"] == "true"
        assert float(row["parity_max_abs"]) < 1e-4
        if backend in ("onnxruntime", "flax", "compile"):
            assert float(row["parity_max_abs"]) > 0


def test_what_compiles_says_how_long_and_what_does_not_says_null(rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    for (backend, _), row in rows.items():
        if backend in ("eager", "sdpa"):
            assert row["compile_s"] == ""
        else:
            assert float(row["compile_s"]) > 0.05
    assert float(rows["onnxruntime", 1]["prepare_s"]) > 0
    assert rows["onnxruntime", 1]["load_s"] == ""
    assert float(rows["eager", 1]["load_s"]) > 0


def test_throughput_and_latency_of_a_synchronous_backend_tell_the_same_story(
    rows: dict[tuple[str, int], dict[str, Any]],
) -> None:
    """Each is measured on its own; on a machine in use they may differ, but not by an order of magnitude."""
    for (_, batch_size), row in rows.items():
        implied = batch_size / float(row["median_latency_s"])
        assert 0.1 < float(row["throughput"]) / implied < 10
        assert row["throughput_unit"] == "samples/s"
