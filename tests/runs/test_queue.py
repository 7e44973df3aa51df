"""Two runs on one machine: the second waits while the first measures, unless it was told not to."""

from __future__ import annotations

import subprocess

import pytest
from run_bench import Bench

from harness import lease as module
from harness.lease import lease


@pytest.fixture(autouse=True)
def _same_folder_of_locks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, bench.environment()[module.VARIABLE])


def test_a_run_waits_for_the_device_and_then_measures(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    with lease("cpu", print):
        run = subprocess.Popen(
            bench.command("run", "matrix.yaml"),
            cwd=bench.folder,
            env=bench.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.stderr is not None
        assert any(line.startswith("waiting for the cpu: ") for line in iter(run.stderr.readline, ""))
        assert not list(bench.results.glob("launches/*"))
    with run:
        run.communicate(timeout=120)
    assert run.returncode == 0


def test_a_run_that_was_told_so_measures_at_once(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    with lease("cpu", print):
        run = bench.run("--no-lease")
    assert run.returncode == 0, run.stderr


def test_a_run_that_has_all_its_results_waits_for_nobody(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run().returncode == 0
    with lease("cpu", print):
        assert bench.run().returncode == 0
