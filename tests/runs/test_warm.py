"""`compile_cache: warm`: launches that start from what an untimed launch of the same cell has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_bench import Bench

from harness.model import LaunchRecord, Result, Status
from harness.store import ResultStore

COMPILE_MS = 60.0


def by_cache(bench: Bench, backend: str = "fake") -> dict[str, Result]:
    """A backend's results, by what their cells ask for."""
    results = ResultStore.existing(bench.results).results()
    return {result.config.compile_cache: result for result in results if result.config.backend == backend}


def launches(bench: Bench, result: Result) -> list[LaunchRecord]:
    files = bench.results.glob(f"launches/{result.key}/*/launch.json")
    return [LaunchRecord.model_validate_json(file.read_bytes()) for file in files]


def kept(bench: Bench) -> list[Path]:
    """The caches that warm launches get copies of."""
    return sorted((bench.cache / "artefacts").glob("*/content"))


@pytest.fixture
def measured(bench: Bench) -> Bench:
    """One cold and one warm cell of a backend that compiles, in one group."""
    bench.write_matrix(
        fake={"compile_ms": COMPILE_MS}, backend=["fake"], compile_cache=["cold", "warm"], protocol={"blocks": 2}
    )
    run = bench.run()
    assert run.returncode == 0, run.stderr
    return bench


def test_a_warm_cell_is_measured_beside_the_cold_one_and_does_not_compile(measured: Bench) -> None:
    cold, warm = (by_cache(measured)[cache].measurements for cache in ("cold", "warm"))
    assert cold.compile_s is not None
    assert cold.compile_s >= COMPILE_MS / 1000
    assert (warm.compile_s, warm.reasons["compile_s"]) == (None, "an earlier launch compiled it")
    assert warm.median_latency_s is not None
    assert warm.ratio_to_baseline is not None  # it shared its blocks with the cold one


def test_cold_and_warm_are_facts_that_every_launch_reports(measured: Bench) -> None:
    for cache, result in by_cache(measured).items():
        records = launches(measured, result)
        assert [record.effective["compile_cache"] for record in records] == [cache] * 2
        assert [record.requested["compile_cache"] for record in records] == [cache] * 2


def test_the_launch_that_fills_the_cache_is_none_of_those_that_are_measured(measured: Bench) -> None:
    warm = by_cache(measured)["warm"]
    records = launches(measured, warm)
    assert warm.measurements.launches == len(records) == 2
    assert all(record.rounds and record.warm_up for record in records)


def test_a_link_that_a_worker_left_in_the_cache_is_not_followed_on_the_host(measured: Bench) -> None:
    (content,) = kept(measured)
    assert [file.name for file in content.iterdir()] == ["compiled"]


def test_the_cache_is_filled_once_and_what_a_launch_writes_never_comes_back(measured: Bench) -> None:
    (content,) = kept(measured)
    before = content.stat().st_mtime_ns
    assert [file.name for file in content.iterdir()] == ["compiled"]
    assert measured.run("--fresh").returncode == 0
    assert kept(measured) == [content]
    assert content.stat().st_mtime_ns == before
    assert {cache: result.status for cache, result in by_cache(measured).items()} == dict.fromkeys(
        ("cold", "warm"), Status.OK
    )


def test_a_launch_that_fails_to_fill_the_cache_ends_its_cell_and_no_other(bench: Bench) -> None:
    bench.write_matrix(fake={"fail_in": "compile"}, compile_cache=["cold", "warm"])
    assert bench.run().returncode == 1
    assert by_cache(bench, "fake_b")["cold"].status is Status.OK
    failed = by_cache(bench)["warm"]
    assert failed.status is Status.FAILED
    assert failed.metadata.error is not None
    assert (failed.metadata.error.stage, failed.metadata.error.message) == ("compile", "told to fail in compile")
    assert failed.measurements.median_latency_s is None
    assert kept(bench) == []


def test_a_backend_that_leaves_nothing_to_start_from_is_a_mismatch(bench: Bench) -> None:
    bench.write_matrix(fake={"forget_compiled": True}, backend=["fake"], compile_cache=["warm"])
    assert bench.run().returncode == 1
    found = by_cache(bench)["warm"]
    assert found.status is Status.MISMATCH
    assert found.metadata.reason == "compile_cache: asked for 'warm', in effect 'cold'"


def test_a_backend_without_a_compile_cache_is_refused_before_anything_starts(bench: Bench) -> None:
    bench.write_matrix(compile_cache=["cold", "warm"])
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert by_cache(bench, "fake_b")["cold"].status is by_cache(bench)["warm"].status is Status.OK
    refused = by_cache(bench, "fake_b")["warm"]
    assert refused.status is Status.UNSUPPORTED
    assert refused.metadata.reason == "compile_cache warm: fake_b keeps no compile cache and no artefact"
    assert not (bench.results / "launches" / refused.key).exists()
