"""Results in the form of transformers' benchmark_v2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from store.factories import a_cell, a_failure, a_result
from stored_launches import store_measured

from harness.interchange import benchmark_v2
from harness.interchange.raw import raw_launches
from harness.interchange.reading import read
from harness.model import HarnessError, Result
from harness.monitor import watcher
from harness.monitor.log import Gpu, GpuReading, Header, Sample, mark, round_name, to_line
from harness.store import ResultStore

GOLDEN = Path(__file__).with_name("benchmark_v2.json")


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore.open(tmp_path / "results")


def exported(store: ResultStore, *results: Result) -> dict[str, Any]:
    text = "".join(benchmark_v2.export((each, raw_launches(each, store)) for each in results))
    entries: dict[str, Any] = json.loads(text)
    return entries


def test_an_entry_has_the_fields_of_that_form_and_no_other(store: ResultStore) -> None:
    entry = exported(store, store_measured(store)).popitem()[1]
    theirs = next(iter(json.loads(GOLDEN.read_text()).values()))
    assert {part: set(fields) for part, fields in entry.items()} == {
        part: set(fields) for part, fields in theirs.items()
    }


def test_every_sample_that_counts_is_a_latency_in_seconds(store: ResultStore) -> None:
    (entry,) = exported(store, store_measured(store)).values()
    assert entry["measurements"]["e2e_latency"] == [0.01, 0.02, 0.04, 0.05, 0.06]


def test_samples_of_disturbed_rounds_are_left_out(store: ResultStore) -> None:
    (entry,) = exported(store, store_measured(store, disturbed=[1])).values()
    assert entry["measurements"]["e2e_latency"] == [0.01, 0.02]


def test_samples_that_are_lost_or_broken_are_left_out(store: ResultStore) -> None:
    result = store_measured(store)
    folder = store.launch_folder(result.key, "launch-1")
    (folder / "round-0.npz").unlink()
    (folder / "round-1.npz").write_bytes(b"PK\x03\x04 broken")
    (entry,) = exported(store, result).values()
    assert entry["measurements"]["e2e_latency"] == []


def watch_gpu(store: ResultStore, *looks: tuple[float | None, int]) -> None:
    """Leave a monitor's log of the first round, with a look each 100 ms: utilisation, bytes in use."""
    gpu = Gpu("GPU-1", "NVIDIA H200", None)
    header = Header(0.1, "cuda", [gpu], None, "GPU-1", None, [], None, counts_pids_as_host=True)
    readings = [GpuReading(busy, used, None, None, None, None, None, None, None) for busy, used in looks]
    name = round_name("launch-1", 0)
    marks = [mark(name, "start"), *[None] * (len(looks) - 2), mark(name, "end")]
    samples = [
        Sample(10**9 + index * 10**8, marks[index], None, None, None, None, {"GPU-1": reading})
        for index, reading in enumerate(readings)
    ]
    file = store.block_folder("block-1") / watcher.FILE
    file.parent.mkdir(parents=True)
    file.write_text("".join(map(to_line, [header, *samples])))


def test_what_was_seen_of_the_gpu_is_told_for_each_launch(store: ResultStore) -> None:
    result = store_measured(store)
    watch_gpu(store, (0.5, 2 * 10**9), (None, 3 * 10**9), (1.0, 4 * 10**9))
    (entry,) = exported(store, result).values()
    assert entry["measurements"]["gpu_metrics"] == [
        {
            "utilization": [50.0, 100.0],
            "memory_used": [2.0, 4.0],
            "timestamps": [0.0, 0.2],
            "timestamp_0": None,
            "monitoring_status": "success",
        }
    ]


def test_where_nothing_was_seen_of_a_gpu_its_metrics_are_null_never_empty(store: ResultStore) -> None:
    result = store_measured(store)
    assert next(iter(exported(store, result).values()))["measurements"]["gpu_metrics"] is None
    watch_gpu(store, (None, 10**9), (None, 10**9))
    assert next(iter(exported(store, result).values()))["measurements"]["gpu_metrics"] is None


def test_a_summarised_entry_has_a_latency_for_each_launch(store: ResultStore) -> None:
    assert benchmark_v2.entry(store_measured(store)).measurements.e2e_latency == [0.04]


GENERATE = a_cell(task="text-generation", operation="generate", new_tokens=3, batch_size=2)


def test_a_generation_has_the_time_of_each_token_of_each_call(store: ResultStore) -> None:
    (entry,) = exported(store, store_measured(store, GENERATE, stamps_ms=[[10, 20, 40], [20, 25, 30]])).values()
    numbers = entry["measurements"]
    assert numbers["e2e_latency"] == [0.01, 0.02, 0.04, 0.05, 0.06]
    assert numbers["time_to_first_token"] == [0.01, 0.02]
    assert numbers["inter_token_latency"] == pytest.approx([0.015, 0.005])
    assert numbers["timestamps"] == [[[0.01, 0.02, 0.04]] * 2, [[0.02, 0.025, 0.03]] * 2]
    assert entry["config"]["num_tokens_to_generate"] == 3


def test_a_summarised_generation_has_its_one_number_of_each(store: ResultStore) -> None:
    numbers = benchmark_v2.entry(store_measured(store, GENERATE, ttft_s=0.01, inter_token_latency_s=0.015)).measurements
    assert (numbers.time_to_first_token, numbers.inter_token_latency) == ([0.01], [0.015])
    assert numbers.timestamps is None


def test_without_stamps_what_comes_of_them_is_null(store: ResultStore) -> None:
    numbers = exported(store, store_measured(store, GENERATE)).popitem()[1]["measurements"]
    assert [numbers[name] for name in ("time_to_first_token", "inter_token_latency", "timestamps")] == [None] * 3


def test_who_measured_on_what_is_told(store: ResultStore) -> None:
    (entry,) = exported(store, store_measured(store)).values()
    metadata = entry["metadata"]
    assert (metadata["commit_id"], metadata["branch_name"], metadata["commit_message"]) == ("c0ffee", "main", "Measure")
    assert metadata["hardware_info"] == {
        "gpu_name": "NVIDIA H200",
        "gpu_memory_total_gb": None,
        "python_version": "3.11.7",
        "torch_version": "2.13.0",
    }


@pytest.mark.parametrize(
    ("options", "kwargs"),
    [
        ({}, None),
        ({"level": "all"}, None),
        (
            {"mode": "default", "fullgraph": True, "matmul_precision": None},
            {"fullgraph": True, "dynamic": None, "backend": None, "mode": "default", "options": None},
        ),
    ],
)
def test_options_of_torch_compile_are_its_arguments(options: dict[str, Any], kwargs: Any) -> None:
    config = benchmark_v2.entry(a_result(a_cell(options=options))).config
    assert json.loads(config.model_dump_json())["compile_kwargs"] == kwargs


def test_a_failure_is_an_entry_without_success_and_latencies(store: ResultStore) -> None:
    (entry,) = exported(store, a_failure()).values()
    assert entry["metadata"]["success"] is False
    assert entry["measurements"]["e2e_latency"] == []


def test_what_was_exported_is_read_back(store: ResultStore, tmp_path: Path) -> None:
    """Of generations: their readers want a number of new tokens."""
    entries = exported(store, store_measured(store, GENERATE, stamps_ms=[[10, 20, 40], [20, 25, 30]]))
    (tmp_path / "theirs.json").write_text(json.dumps(entries))
    (result,) = read(tmp_path / "theirs.json")
    numbers = result.measurements
    assert numbers.median_latency_s == numbers.e2e_latency_s == pytest.approx(0.04)
    assert (numbers.ttft_s, numbers.inter_token_latency_s) == (pytest.approx(0.015), pytest.approx(0.01))
    assert (result.config.batch_size, result.config.sequence_length, result.config.new_tokens) == (2, 128, 3)


def test_two_results_of_one_key_are_refused(store: ResultStore) -> None:
    with pytest.raises(HarnessError, match=r"one result of each key.* without --all"):
        exported(store, a_result(), a_result(run_id="run-2"))


def test_no_results_are_an_empty_object(store: ResultStore) -> None:
    assert exported(store) == {}
