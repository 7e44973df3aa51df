"""The uploads of a run: when they happen, what is told, and that none of them can harm the run."""

from __future__ import annotations

import json

import pytest
from hub_server import Dataset, Fault, Hub
from store.factories import a_cell, a_result

from harness import plugins
from harness.hub import client
from harness.hub.push import HASTY, Patience
from harness.hub.uploads import RunUploads
from harness.model import Result
from harness.store import ResultStore

REPO = "tiny-org/results"
SUMMARIZED = "summarized_results/benchmark_run_20261129_201500_0a1b2c.jsonl"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def each_cell(dataset: client.Dataset, store: ResultStore, told: list[str]) -> RunUploads:
    return RunUploads(dataset, store, told.append, after_each_cell=True)


@pytest.fixture(autouse=True)
def no_waiting(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.hub.uploads.HASTY", Patience(HASTY.attempts, sleep=waits.append))


def newest(store: ResultStore) -> Result:
    return store.history()[-1]


def test_after_each_cell_the_run_so_far_is_uploaded(
    each_cell: RunUploads, store: ResultStore, stored: Dataset, told: list[str]
) -> None:
    each_cell.harness_cell_finished(newest(store))
    store.add(a_result(a_cell(batch_size=8), run_id="20261129T201500Z-0a1b2c"))
    each_cell.harness_cell_finished(newest(store))
    assert len(stored.files[SUMMARIZED].splitlines()) == 3
    assert len(stored.messages) == 2
    assert [text.partition(",")[0] for text in told] == [f"Uploaded to the dataset {REPO}"] * 2


def test_of_other_runs_in_the_directory_nothing_is_uploaded(
    each_cell: RunUploads, store: ResultStore, stored: Dataset
) -> None:
    store.add(a_result(run_id="20261130T000000Z-ffffff", timestamp="2026-11-30T00:00:00+00:00"))
    each_cell.harness_cell_finished(newest(store))
    assert [path for path in stored.files if path.startswith("summ")] == [
        "summarized_results/benchmark_run_20261130_000000_ffffff.jsonl"
    ]
    assert len([path for path in stored.files if path.startswith("latest/")]) == 1


def test_without_being_asked_for_nothing_is_uploaded_before_the_end(
    dataset: client.Dataset, store: ResultStore, stored: Dataset, told: list[str]
) -> None:
    uploads = RunUploads(dataset, store, told.append, after_each_cell=False)
    uploads.harness_cell_finished(newest(store))
    assert stored.messages == []
    uploads.finish(store.results())
    assert len(stored.messages) == 1


def test_the_end_uploads_all_runs_that_a_continued_one_took_results_from(
    each_cell: RunUploads, store: ResultStore, stored: Dataset
) -> None:
    store.add(a_result(a_cell(batch_size=8), run_id="20261130T000000Z-ffffff"))
    each_cell.finish(store.results())
    assert len([path for path in stored.files if path.startswith("summ")]) == 2


def test_a_failed_upload_is_told_and_not_tried_again_before_the_end(
    each_cell: RunUploads, store: ResultStore, stored: Dataset, hub: Hub, told: list[str], waits: list[float]
) -> None:
    hub.faults += [Fault("/commit/", status=503)] * HASTY.attempts
    each_cell.harness_cell_finished(newest(store))
    assert told == [
        f"Not uploaded: {REPO}: the Hub answered with status 503; try again later. "
        "The results are kept here; `harness sync` uploads them."
    ]
    assert waits == [1.0]
    each_cell.harness_cell_finished(newest(store))
    assert len(told) == 1
    each_cell.finish(store.results())
    assert len(stored.messages) == 1


@pytest.mark.parametrize("fault", [401, 403, 404, 400])
def test_no_refusal_reaches_the_run(
    each_cell: RunUploads, store: ResultStore, hub: Hub, told: list[str], fault: int
) -> None:
    hub.faults.append(Fault("/api/", status=fault))
    each_cell.finish(store.results())
    assert told[0].startswith("Not uploaded: ")


def test_not_even_a_mistake_of_ours_reaches_the_run(
    each_cell: RunUploads, store: ResultStore, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setattr("harness.hub.uploads.push", lambda *_: 1 // 0)
    each_cell.finish(store.results())
    assert told[0].startswith("Not uploaded: ZeroDivisionError")


def test_it_observes_as_plugins_do(each_cell: RunUploads, store: ResultStore, stored: Dataset, told: list[str]) -> None:
    loaded = plugins.load()
    loaded.add_observer("uploads", each_cell)
    loaded.observers(told.append).cell_finished(newest(store))
    assert json.loads(stored.files[SUMMARIZED].splitlines()[0])["metadata"]["status"] == "ok"
