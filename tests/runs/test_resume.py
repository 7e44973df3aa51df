"""A second run continues the first."""

from __future__ import annotations

import signal
import subprocess
import time

from run_bench import Bench

from harness.model import Status


def test_a_second_run_measures_nothing_again_and_prints_the_same_table(bench: Bench) -> None:
    bench.write_matrix()
    first = bench.run()
    again = bench.run()
    assert (first.returncode, again.returncode) == (0, 0)
    assert len(bench.history()) == 2
    assert "2 results (2 of them kept from former runs; --fresh measures anew)" in again.stdout
    assert again.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]


def test_fresh_measures_everything_again(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    assert bench.run("--fresh").returncode == 0
    assert len(bench.history()) == 4
    assert len(bench.rows()) == 2


def test_only_what_was_not_ok_is_measured_again(bench: Bench) -> None:
    bench.write_matrix(fake_b={"fail_in": "load"})
    assert bench.run().returncode == 1
    assert bench.run().returncode == 1
    assert [result.config.backend for result in bench.history()] == ["fake_b", "fake", "fake_b"]


def test_another_protocol_is_another_measurement(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    bench.write_matrix(protocol={"blocks": 2})
    assert bench.run().returncode == 0
    assert len(bench.history()) == 4


def test_another_display_name_of_the_same_model_is_the_same_measurement(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    matrix = bench.folder / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace(f"path:{bench.folder}/model", "path:./model"))
    assert bench.run().returncode == 0
    assert len(bench.history()) == 2


def test_a_backend_added_later_has_no_ratio_because_it_shared_no_block_with_the_baseline(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run("--only", "backend == 'fake'").returncode == 0
    assert bench.run().returncode == 0
    numbers = bench.by_backend()["fake_b"].measurements
    assert numbers.median_latency_s is not None
    assert numbers.ratio_to_baseline is None
    assert "--fresh" in numbers.reasons["ratio_to_baseline"]


def test_a_kill_after_the_first_block_costs_only_the_second(bench: Bench) -> None:
    bench.write_matrix(fake={"call_ms": 5.0}, protocol={"blocks": 2, "round_calls": 40})
    process = subprocess.Popen(
        bench.command("run", "matrix.yaml"), cwd=bench.folder, env=bench.environment(), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(bench.results.glob("launches/*/*/launch.json"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert "Took 1 finished block" in run.stderr
    assert len(list(bench.results.glob("launches/*/*/launch.json"))) == 4
    for result in bench.by_backend().values():
        assert (result.status, result.measurements.launches) == (Status.OK, 2)
