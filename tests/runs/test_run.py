"""What a run that goes well leaves behind."""

from __future__ import annotations

import json
import shlex

import numpy as np
import psutil
from run_bench import Bench

from harness.model import LaunchRecord, Status


def test_a_run_compares_its_backends_and_exits_0(bench: Bench) -> None:
    bench.write_matrix(fake={"call_ms": 4.0}, fake_b={"call_ms": 1.0}, protocol={"blocks": 2})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    fake, fake_b = (bench.by_backend()[name] for name in ("fake", "fake_b"))
    assert (fake.status, fake_b.status) == (Status.OK, Status.OK)
    assert fake.measurements.median_latency_s is not None
    assert fake.measurements.median_latency_s >= 0.004
    assert fake_b.measurements.ratio_to_baseline is not None
    assert fake_b.measurements.ratio_to_baseline > 1
    assert (fake.measurements.break_even, fake.measurements.ratio_to_baseline) == ("baseline", 1.0)
    assert fake_b.measurements.launches == 2
    assert "fake_b" in run.stdout
    assert "indicative" in run.stdout
    assert max(map(len, run.stdout.splitlines()[:-1])) <= 80


def test_the_command_that_a_run_ends_with_can_be_pasted_whatever_the_folder_is_called(bench: Bench) -> None:
    bench.write_matrix()
    run = bench.run("--results", 'John\'s runs, §3: "a"')
    closing = run.stdout.splitlines()[-1]
    pasted = bench.harness(*shlex.split(closing.split("`")[1])[1:])
    assert pasted.returncode == 0, pasted.stderr
    assert len(pasted.stdout.splitlines()) == 1 + 2


def test_phases_are_disjoint_and_sum_to_the_cold_start(bench: Bench) -> None:
    bench.write_matrix(fake={"load_ms": 30.0, "prepare_ms": 40.0, "compile_ms": 50.0, "call_ms": 10.0})
    assert bench.run().returncode == 0
    numbers = bench.by_backend()["fake"].measurements
    phases = [numbers.load_s, numbers.prepare_s, numbers.compile_s, numbers.first_call_s]
    known = [phase for phase in phases if phase is not None]
    assert len(known) == 4
    assert [phase >= least for phase, least in zip(known, (0.03, 0.04, 0.05, 0.01), strict=True)] == [True] * 4
    assert numbers.cold_start_s is not None
    assert numbers.cold_start_residual_s is not None
    assert abs(sum(known) + numbers.cold_start_residual_s - numbers.cold_start_s) < 1e-9
    assert 0 <= numbers.cold_start_residual_s < 0.05


def test_a_phase_that_does_not_apply_is_null_with_the_backends_reason(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    numbers = bench.by_backend()["fake"].measurements
    assert numbers.compile_s is None
    assert numbers.reasons["compile_s"] == "compile_ms is null"
    assert bench.rows()[0]["compile_s"] is None


def test_every_null_number_has_a_reason(bench: Bench) -> None:
    bench.write_matrix(fake_b={"fail_in": "load"})
    assert bench.run().returncode == 1
    for result in bench.by_backend().values():
        numbers = result.measurements.model_dump(exclude={"reasons", "per_launch"})
        assert [
            name for name, value in numbers.items() if value is None and name not in result.measurements.reasons
        ] == []


def test_launches_interleave_in_a_permutation_and_its_mirror(bench: Bench) -> None:
    bench.write_matrix(protocol={"passes": 2, "blocks": 1})
    assert bench.run().returncode == 0
    records = [
        LaunchRecord.model_validate_json(file.read_bytes()) for file in bench.results.glob("launches/*/*/launch.json")
    ]
    assert [[r.mode for r in record.rounds] for record in records] == [["latency"] * 4 + ["throughput"] * 2] * 2
    assert len({record.block_id for record in records}) == 1
    assert records[0].companions == [records[1].hashes.key]


def test_raw_samples_are_kept_as_whole_nanoseconds_and_rotate_over_eight_inputs(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1, "round_calls": 12})
    assert bench.run().returncode == 0
    file = next(bench.results.glob("launches/*/*/launch.json"))
    record = LaunchRecord.model_validate_json(file.read_bytes())
    latency = next(round_ for round_ in record.rounds if round_.mode == "latency")
    assert latency.file is not None
    with np.load(file.parent / latency.file) as samples:
        assert samples["total_ns"].dtype == np.int64
        assert len(samples["total_ns"]) == latency.calls >= 12
        assert set(samples["slot"]) == set(range(8))


def test_throughput_is_measured_and_not_derived_from_latency(bench: Bench) -> None:
    """Asynchronous calls overlap: the fake's device takes the time once per wait, so derived throughput would be wrong."""
    bench.write_matrix(fake={"call_ms": 5.0}, fake_b={"call_ms": 5.0, "asynchronous": True}, batch_size=[2])
    assert bench.run().returncode == 0
    for result in bench.by_backend().values():
        numbers = result.measurements
        assert numbers.throughput_unit == "samples/s"
        assert numbers.throughput is not None
        assert numbers.median_latency_s is not None
        assert numbers.median_latency_s >= 0.005  # wait() is part of every sample


def test_a_compilation_in_the_middle_is_left_out_of_the_median_and_kept_in_the_samples(bench: Bench) -> None:
    # Calls so far: 1 first call, 8 outputs, at least 9 of warm-up; call 60 lies in the rounds.
    bench.write_matrix(
        fake={"recompile_at": 40, "compile_ms": 300.0}, protocol={"blocks": 1, "round_calls": 40, "passes": 1}
    )
    assert bench.run().returncode == 0
    result = bench.by_backend()["fake"]
    kept = 0
    for file in bench.results.glob(f"launches/{result.key}/*/*.npz"):
        with np.load(file) as samples:
            kept += len(samples["total_ns"])
            assert (samples["total_ns"][samples["compiled"] > 0] >= 300_000_000).all()
    assert result.measurements.samples in (kept - 1, kept)  # in the settling calls of a round it would not be recorded
    assert result.measurements.latency_iqr_s is not None
    assert result.measurements.latency_iqr_s < 0.1


def test_the_result_says_what_was_asked_what_was_in_effect_and_where(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    metadata = bench.by_backend()["fake"].metadata
    assert metadata.requested.items() <= metadata.effective.items()
    assert metadata.requested["threads"] == 1
    assert metadata.inputs_sha256 is not None
    assert metadata.checkpoint_sha256 is not None
    assert metadata.environment["host"]["kernel"]
    assert metadata.environment["stack"]["lock"]


def test_the_reference_is_made_once_and_reused_by_later_runs(bench: Bench) -> None:
    (bench.cache / "references").unlink()  # those of other tests
    bench.write_matrix()
    assert bench.run().returncode == 0
    made = sorted((bench.cache / "references").glob("*/manifest.json"))
    assert len(made) == 1
    before = made[0].stat().st_mtime_ns
    assert bench.run("--fresh").returncode == 0
    assert made[0].stat().st_mtime_ns == before


def test_a_run_leaves_no_worker_and_no_scratch_behind(bench: Bench) -> None:
    bench.write_matrix(fake_b={"exit_in": "steady"})
    bench.run()
    assert list(bench.results.glob("launches/*/*/scratch")) == []
    assert [path.name for path in bench.results.rglob(".*")] == [".lock"]
    mine = [p for p in psutil.process_iter(["environ"]) if str(bench.folder) in str(p.info["environ"])]
    assert mine == []


def test_the_run_file_holds_metadata_measurements_and_config_by_key(bench: Bench) -> None:
    bench.write_matrix()
    assert bench.run().returncode == 0
    (file,) = bench.results.glob("*/*_benchmark_*.json")
    content = json.loads(file.read_text())
    assert set(content) == {result.key for result in bench.by_backend().values()}
    for entry in content.values():
        assert {"metadata", "measurements", "config"} <= set(entry)


def test_observers_hear_of_every_cell_and_one_that_raises_stops_nothing(bench: Bench) -> None:
    (bench.folder / "watcher.py").write_text(
        "from harness.hookspecs import hookimpl\n"
        "@hookimpl\ndef harness_cell_started(cell):\n    open('started', 'a').write(cell.backend + '\\n')\n"
        "@hookimpl\ndef harness_cell_finished(result):\n    raise RuntimeError('the dashboard is down')\n"
    )
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{bench.folder}"
    bench.write_matrix()
    run = bench.run("-p", "watcher")
    assert run.returncode == 0, run.stderr
    assert (bench.folder / "started").read_text().split() == ["fake", "fake_b"]
    assert run.stderr.count("the dashboard is down") == 1
