"""A machine against itself, by way of the fake backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run_bench import Bench

from harness.model import Calibration

FAST = {"blocks": 3, "most_blocks": 3, "round_calls": 3, "monitor": False, "throughput_rounds": 1, "repeats": 0}


def calibrate(bench: Bench, *arguments: str) -> dict[str, Any]:
    run = bench.harness("calibrate", "matrix.yaml", "--format", "json", *arguments)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def kept(bench: Bench) -> list[Path]:
    return list((bench.cache / "calibrations").glob("*"))


def test_the_baselines_cell_is_compared_with_itself_and_what_was_found_is_kept_for_the_machine(bench: Bench) -> None:
    bench.write_matrix(fake={"call_ms": 4.0}, protocol=FAST)
    found = calibrate(bench, "--comparisons", "2", "--budget", "10")
    assert found["config"]["backend"] == "fake"
    assert found["config"]["options"]["call_ms"] == 4.0
    assert 1 <= found["comparisons"] == len(found["ratios"]) <= 2
    assert 0 <= found["false_positives"] <= found["comparisons"]
    assert found["noise_floor_ratio"] is None  # which takes twenty
    assert found["median_ci_half_width"] > 0
    assert found["false_positive_ci_low"] <= found["false_positive_rate"] <= found["false_positive_ci_high"]
    (file,) = kept(bench)
    assert file.name == f"{found['host_hash']}.json"
    assert Calibration.model_validate_json(file.read_text()).ratios == found["ratios"]
    assert not bench.results.exists()


def test_reports_of_the_machine_show_it_beside_their_verdicts_and_not_beside_indications(bench: Bench) -> None:
    bench.write_matrix(fake={"call_ms": 4.0}, protocol=FAST)
    calibrate(bench, "--comparisons", "1", "--budget", "1")
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert "this machine against itself:" in run.stdout
    assert "1 called different" in run.stdout or "0 of 1 called different" in run.stdout
    quick = bench.run("--quick")
    assert "this machine against itself" not in quick.stdout


def test_one_comparison_is_made_however_small_the_budget(bench: Bench) -> None:
    bench.write_matrix(protocol=FAST)
    found = calibrate(bench, "--comparisons", "50", "--budget", "1")
    assert found["comparisons"] == 1
    assert found["bind_threads"] is None
    assert found["bind_reason"] == "it takes 3 trials, the budget allowed 1"


def test_a_cell_that_cannot_be_timed_is_told_and_what_was_known_stays(bench: Bench) -> None:
    bench.write_matrix(fake={"fail_in": "load"}, protocol=FAST)
    run = bench.harness("calibrate", "matrix.yaml", "--comparisons", "1", "--budget", "1")
    assert run.returncode == 2
    assert "cannot be compared with itself: it ended as failed (told to fail in load)" in run.stderr
    assert kept(bench) == []


def test_a_protocol_without_intervals_is_refused(bench: Bench) -> None:
    bench.write_matrix(protocol={**FAST, "blocks": 2})
    run = bench.harness("calibrate", "matrix.yaml")
    assert run.returncode == 2
    assert "3 blocks; the protocol asks for 2" in run.stderr
