"""A sweep in shards, merged and asked; and what of it is tried again."""

from __future__ import annotations

import json

from run_bench import Bench

from harness.store import ResultStore


def test_shards_of_a_sweep_merge_into_what_one_run_would_have_given(bench: Bench) -> None:
    bench.write_matrix(batch_size=[1, 2, 3], protocol={"blocks": 1})
    for index in (1, 2):
        run = bench.harness("run", "matrix.yaml", "--shard", f"{index}/2", "--results", f"shard-{index}")
        assert run.returncode == 0, run.stderr
    merged = bench.harness("merge", "shard-1", "shard-2", "--into", "results")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert "6 results added to results" in merged.stdout
    assert sorted((each.config.batch_size, each.config.backend) for each in bench.history()) == [
        (size, backend) for size in (1, 2, 3) for backend in ("fake", "fake_b")
    ]
    resumed = bench.run()
    assert "6 of them kept from former runs" in resumed.stdout
    report = bench.harness("report", "results").stdout.splitlines()
    assert sorted(report) == sorted(resumed.stdout.splitlines()[:-1])  # workloads come in order of writing


def test_more_shards_than_workloads_leave_some_without_work(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    run = bench.run("--shard", "2/2")
    assert run.returncode == 0, run.stderr
    assert "0 results" in run.stdout


def test_a_result_left_out_of_a_merge_makes_the_exit_code_1(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run().returncode == 0
    changed = ResultStore.open(bench.folder / "changed")
    for result in bench.history():
        numbers = result.measurements.model_copy(update={"launches": 2})
        changed.add(result.model_copy(update={"measurements": numbers}))
    merged = bench.harness("merge", "results", "changed", "--into", "all")
    assert merged.returncode == 1
    assert merged.stderr.count("is left out") == 2
    assert "2 results added to all, 0 were there already, 2 left out." in merged.stdout


def test_only_what_failed_is_tried_again(bench: Bench) -> None:
    bench.write_matrix(fake_b={"fail_in": "load"}, protocol={"blocks": 1})
    assert bench.run("--only", "backend == 'fake_b'").returncode == 1
    retried = bench.run("--retry-failed")
    assert retried.returncode == 1
    assert "1 of 2 cells did not end well in results: only these are run." in retried.stderr
    assert [result.config.backend for result in bench.history()] == ["fake_b", "fake_b"]


def test_fresh_and_retry_failed_exclude_one_another(bench: Bench) -> None:
    bench.write_matrix()
    run = bench.run("--fresh", "--retry-failed")
    assert run.returncode == 2
    assert "give one of them" in run.stderr


def test_results_are_found_by_an_expression_as_a_table_json_and_csv(bench: Bench) -> None:
    bench.write_matrix(batch_size=[1, 8], protocol={"blocks": 1})
    assert bench.run().returncode == 0
    ask = ("results", "results", "--where", "backend == 'fake' and batch_size >= 8", "--sort", "throughput")
    table = bench.harness(*ask)
    assert table.returncode == 0, table.stderr
    assert table.stdout.endswith("\n1 of 1 result\n")
    (row,) = json.loads(bench.harness(*ask, "--format", "json").stdout)
    assert (row["backend"], row["batch_size"], row["status"]) == ("fake", 8, "ok")
    listed = bench.harness("results", "results", "--format", "csv", "--columns", "backend, batch_size")
    assert sorted(listed.stdout.splitlines()) == ["backend,batch_size", "fake,1", "fake,8", "fake_b,1", "fake_b,8"]
    assert bench.harness("results", "results", "--columns", "key").returncode == 2
    assert ResultStore.existing(bench.results).warnings == []


def test_an_empty_name_of_a_folder_is_refused_and_not_taken_for_the_one_that_one_stands_in(bench: Bench) -> None:
    for arguments in (("merge", "shard-1", "--into", ""), ("run", "matrix.yaml", "--results", "")):
        refused = bench.harness(*arguments)
        assert refused.returncode == 2
        assert "an empty name is no folder" in refused.stderr
