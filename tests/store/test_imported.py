"""Results of other tools in a results directory: kept apart, once each."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.interchange.reading import read
from harness.model import SCHEMA_VERSION, HarnessError, ImportedResult
from harness.store import ResultStore
from store.factories import a_result

GOLDEN = Path(__file__).parents[1] / "interchange"


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore.open(tmp_path)


def imported() -> list[ImportedResult]:
    return [*read(GOLDEN / "benchmark_v2.json"), *read(GOLDEN / "benchmark.json")]


def test_they_are_read_back_equal_by_tool_file_and_entry(store: ResultStore) -> None:
    results = imported()
    for each in reversed(results):
        assert store.add_imported(each)
    assert store.imported() == [results[2], results[0], results[1]]


def test_one_that_is_there_is_not_stored_again(store: ResultStore, tmp_path: Path) -> None:
    (result, *_) = imported()
    assert store.add_imported(result)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert not store.add_imported(result)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before


def test_they_are_not_among_ours(store: ResultStore) -> None:
    store.add(a_result())
    store.add_imported(imported()[0])
    assert store.results() == store.history() == [a_result()]


def test_a_folder_with_nothing_else_can_be_read(store: ResultStore, tmp_path: Path) -> None:
    store.add_imported(imported()[0])
    assert len(ResultStore.existing(tmp_path).imported()) == 1


def test_one_of_a_newer_schema_is_refused_and_stays(store: ResultStore, tmp_path: Path) -> None:
    store.add_imported(imported()[0])
    (path,) = (tmp_path / "imported").iterdir()
    newer = path.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
    path.write_text(newer)
    with pytest.raises(HarnessError, match="schema version 99"):
        store.imported()
    assert path.read_text() == newer
