"""Whole runs with the monitor beside them: what reaches the rows, and that it never stops a run."""

from __future__ import annotations

import os

from monitor.machine import a_gpu, stand_in_variables
from run_bench import PLUGINS, Bench

from harness.monitor.spans import read_log
from harness.monitor.watcher import FILE

MONITORED = {"blocks": 1, "monitor": True}

BROKEN = """
import sys
if "harness.monitor" in sys.orig_argv:
    sys.exit("a broken installation")
"""
"""Run by every Python as it starts; ends the monitor's."""

FAKE_ON_GPU = """
from dataclasses import replace
from harness.hookspecs import hookimpl
from harness_fake import plugin
@hookimpl
def harness_register_backends():
    return [replace(each, dtypes={"cuda": ("float32",)}) for each in plugin.harness_register_backends()]
"""
"""A plugin whose backends say that they run on a GPU."""


def test_a_run_tells_what_the_machine_was_doing_in_its_rounds(bench: Bench) -> None:
    bench.write_matrix(protocol={**MONITORED, "round_seconds": 0.1})
    assert bench.run().returncode == 0
    for result in bench.by_backend().values():
        monitoring = result.measurements.monitoring
        assert monitoring
        assert monitoring.cpu_utilisation_mean is not None
        assert 0 < monitoring.cpu_utilisation_mean <= 1
        assert monitoring.reasons["gpu_utilisation_mean"] == "the cell runs on cpu"
        rounds = result.measurements.rounds
        (log,) = [read_log(file) for file in bench.results.glob(f"blocks/*/{FILE}")]
        launch = result.measurements.per_launch[0].launch_id
        marks = [sample.mark for sample in log.samples if sample.mark and sample.mark.startswith(launch)]
        assert len(marks) == 2 * rounds > 0


def test_a_run_on_a_gpu_tells_of_it_and_warns_of_a_foreign_process(bench: Bench) -> None:
    stand_in = stand_in_variables([a_gpu(processes=[[os.getpid(), 3 << 30]])])
    path = f"{PLUGINS}:{stand_in['PYTHONPATH']}:{bench.folder}"
    bench.variables |= {**stand_in, "PYTHONPATH": path, "HARNESS_PLUGINS": "fake_on_gpu", "CUDA_VISIBLE_DEVICES": "0"}
    (bench.folder / "fake_on_gpu.py").write_text(FAKE_ON_GPU)
    bench.write_matrix(protocol={**MONITORED, "idle_seconds": 0.1}, device=["cuda"])
    run = bench.run()
    assert run.returncode == 0, run.stderr
    row = bench.rows()[0]
    assert (row["gpu_uuid"], row["gpu_utilisation_mean"], row["gpu_throttle_reasons"]) == ("GPU-aaaaaaaa", 0.5, "none")
    assert row["gpu_power_mean_w"] == 100
    assert row["gpu_foreign_processes"] == f"{os.getpid()} (3.0 GiB)"
    assert "other processes computed on the GPU meanwhile" in run.stderr


def test_a_run_without_monitoring_says_so_and_exports_nulls(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1, "monitor": False})
    assert bench.run().returncode == 0
    reasons = bench.by_backend()["fake"].measurements.reasons
    assert (reasons["energy_j_per_call"], reasons["monitoring"]) == ("monitoring was off", "monitoring was off")
    assert {bench.rows()[0][name] for name in ("energy_j_per_call", "gpu_uuid", "gpu_utilisation_mean")} == {None}
    assert not (bench.results / "blocks").exists()


def test_a_monitor_that_cannot_start_costs_its_numbers_and_nothing_else(bench: Bench) -> None:
    bench.write_matrix(protocol=MONITORED)
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{bench.folder / 'broken'}"
    (bench.folder / "broken").mkdir()
    (bench.folder / "broken" / "sitecustomize.py").write_text(BROKEN)
    assert bench.run().returncode == 0
    reason = bench.by_backend()["fake"].measurements.reasons["monitoring"]
    assert reason.startswith("the monitor was given up: it ended")
    (errors,) = bench.results.glob("blocks/*/monitor-stderr.log")
    assert "a broken installation" in errors.read_text()
