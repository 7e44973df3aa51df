"""How many blocks a workload gets, in which order its launches run, and what its rows then say."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from run_bench import Bench

from harness.model import LaunchRecord

FAST: Mapping[str, Any] = {"round_calls": 3, "settle_calls": 1, "throughput_rounds": 1, "idle_seconds": 0.0}


def records(bench: Bench) -> list[LaunchRecord]:
    files = bench.results.glob("launches/*/*/launch.json")
    return sorted((LaunchRecord.model_validate_json(f.read_bytes()) for f in files), key=lambda r: r.started_at)


def test_a_pilot_that_is_certain_enough_gets_no_further_blocks_and_a_verdict(bench: Bench) -> None:
    bench.write_matrix(
        fake={"call_ms": 20.0}, fake_b={"call_ms": 4.0}, protocol={**FAST, "blocks": 3, "half_width": 1000}
    )
    run = bench.run()
    assert run.returncode == 0, run.stderr
    numbers = bench.by_backend()["fake_b"].measurements
    assert (numbers.blocks, numbers.launches, numbers.rounds) == (3, 3, 12)
    assert numbers.verdict == "faster"
    assert numbers.ratio_ci_low is not None
    assert numbers.ratio_ci_high is not None
    assert numbers.ratio_to_baseline is not None
    assert 1 < numbers.ratio_ci_low <= numbers.ratio_to_baseline <= numbers.ratio_ci_high
    assert numbers.ratio_confidence == 0.95
    assert numbers.median_ci_low_s is not None
    assert numbers.median_ci_high_s is not None
    assert "fake_b[call_ms=4.0] is faster" in " ".join(run.stdout.split())
    assert max(map(len, run.stdout.splitlines()[:-1])) <= 80


def test_a_pilot_too_uncertain_gets_as_many_blocks_as_are_allowed_and_the_user_is_told(bench: Bench) -> None:
    bench.write_matrix(protocol={**FAST, "blocks": 3, "most_blocks": 4, "half_width": 1e-6})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    numbers = bench.by_backend()["fake_b"].measurements
    assert numbers.blocks == 4
    assert numbers.blocks_needed is not None
    assert numbers.blocks_needed > 4
    assert "it got 4, as most_blocks allows no more" in run.stderr


def test_the_budget_ends_what_the_pilot_asked_for_but_never_the_pilot(bench: Bench) -> None:
    bench.write_matrix(protocol={**FAST, "blocks": 3, "half_width": 1e-6, "budget_seconds": 0.001})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert bench.by_backend()["fake_b"].measurements.blocks == 3
    assert "as budget_seconds allows no more" in run.stderr


def test_quick_makes_two_blocks_for_an_indication_and_never_stands_for_a_full_run(bench: Bench) -> None:
    bench.write_matrix(protocol={**FAST, "blocks": 3, "half_width": 1000})
    assert bench.run("--quick").returncode == 0
    for row in bench.rows():
        assert (row["blocks"], row["verdict"], row["ratio_ci_low"]) == (2, "indicative", None)
    assert bench.run().returncode == 0
    assert {row["blocks"] for row in bench.rows()} == {3}


def test_a_sequential_schedule_ends_a_launch_before_the_next_begins_and_the_result_says_so(bench: Bench) -> None:
    bench.write_matrix(
        fake={"load_ms": 100.0}, fake_b={"load_ms": 100.0}, protocol={**FAST, "blocks": 2, "schedule": "sequential"}
    )
    run = bench.run()
    assert run.returncode == 0, run.stderr
    launches = records(bench)
    assert [record.schedule for record in launches] == ["sequential"] * 4
    # Each launch sleeps for 0.1 s while it loads, so launches that began together would have begun within less.
    starts = [record.started_at for record in launches]
    assert all(_seconds(later) - _seconds(earlier) > 0.1 for earlier, later in pairwise(starts))
    assert len({record.block_id for record in launches}) == 2
    assert all(len(record.companions) == 1 for record in launches)
    metadata = bench.by_backend()["fake"].metadata
    assert (metadata.schedule, metadata.schedule_reason) == ("sequential", "asked for by the protocol")
    assert "not interleaved" in run.stdout
    assert bench.by_backend()["fake_b"].measurements.ratio_to_baseline is not None


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def test_a_killed_run_goes_on_with_the_pilot_it_had_and_then_decides(bench: Bench) -> None:
    bench.write_matrix(
        fake={"call_ms": 5.0}, protocol={**FAST, "blocks": 3, "most_blocks": 4, "half_width": 1e-6, "round_calls": 20}
    )
    process = subprocess.Popen(
        bench.command("run", "matrix.yaml"), cwd=bench.folder, env=bench.environment(), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(bench.results.glob("launches/*/*/launch.json"))) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {record.launch_id for record in records(bench) if record.block_index < 2}
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert "Took 2 finished block(s)" in run.stderr
    for result in bench.by_backend().values():
        assert result.measurements.blocks == 4
        ids = [launch.launch_id for launch in result.measurements.per_launch]
        assert set(ids[:2]) <= finished
