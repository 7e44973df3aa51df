"""Directories of shards and of machines made one: nothing lost, nothing doubled, conflicts named, machines apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.interchange.reading import read
from harness.model import SCHEMA_VERSION, Cell, HarnessError, Result
from harness.store import ResultStore, durable
from harness.store.merging import Merged, merge
from store.factories import a_cell, a_failure, a_launch, a_result, some_hashes

FOREIGN = Path(__file__).parents[1] / "interchange" / "benchmark_v2.json"


def a_folder(root: Path, *results: Result) -> Path:
    """A results directory of one run, each result with a launch."""
    store = ResultStore.open(root)
    for number, result in enumerate(results):
        store.add_launch(a_launch(result.config, launch_id=f"{root.name}-{number}"))
        store.add(result)
    store.finish_runs()
    return root


def of_run(run_id: str, cell: Cell | None = None, **metadata: str) -> Result:
    return a_result(cell, run_id=run_id, **metadata)


def elsewhere(run_id: str, cell: Cell | None = None) -> Result:
    cell = cell or a_cell()
    return a_result(cell, run_id=run_id, hashes=some_hashes(cell, host_hash="8" * 64))


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Each a run of its own, begun in the same second."""
    return [
        a_folder(tmp_path / "one", of_run("run-1"), a_failure(a_cell(batch_size=2), run_id="run-1")),
        a_folder(tmp_path / "two", of_run("run-2", a_cell(batch_size=3))),
    ]


def test_shards_become_one_directory_with_all_that_they_hold(shards: list[Path], tmp_path: Path) -> None:
    merged = merge(shards, tmp_path / "all")
    assert merged == Merged(added=3, present=0, left_out=(), repeated=(), hosts=("7" * 64,), torn=())
    store = ResultStore.existing(tmp_path / "all")
    assert store.history() == [each for shard in shards for each in ResultStore.existing(shard).history()]
    assert len(list((tmp_path / "all").glob("latest/**/*.json"))) == 3
    assert [len(store.launches(result.key)) for result in store.results()] == [1, 1, 1]
    runs = [json.loads(path.read_text()) for path in (tmp_path / "all").glob("*/*_benchmark_*.json")]
    assert sorted(map(len, runs)) == [1, 2]


def test_a_second_merge_changes_nothing(shards: list[Path], tmp_path: Path) -> None:
    merge(shards, tmp_path / "all")
    before = files(tmp_path / "all")
    merged = merge([*shards, *shards], tmp_path / "all")
    assert (merged.added, merged.present) == (0, 6)
    assert files(tmp_path / "all") == before


def test_a_shard_that_has_grown_is_merged_again(shards: list[Path], tmp_path: Path) -> None:
    merge(shards, tmp_path / "all")
    run_files = set((tmp_path / "all").glob("*/*_benchmark_*.json"))
    grown = ResultStore.open(shards[1])
    (path,) = shards[1].glob("*/*_benchmark_*.json")
    later = of_run("run-2", a_cell(batch_size=4))
    grown.add(later)
    path.unlink()
    grown.finish_runs()
    (path_again,) = shards[1].glob("*/*_benchmark_*.json")
    path_again.rename(path)
    assert merge(shards, tmp_path / "all").added == 1
    assert ResultStore.existing(tmp_path / "all").history()[-1] == later
    assert set((tmp_path / "all").glob("*/*_benchmark_*.json")) == run_files
    assert sorted(len(json.loads(path.read_text())) for path in run_files) == [2, 2]


def test_the_directory_that_gets_them_keeps_what_it_has(shards: list[Path]) -> None:
    into, other = shards
    before = (into / "history.jsonl").read_bytes()
    merge([other], into)
    assert (into / "history.jsonl").read_bytes() == before + (other / "history.jsonl").read_bytes()


def test_results_of_two_machines_stay_apart(tmp_path: Path) -> None:
    here, there = (
        a_folder(tmp_path / "here", of_run("run-1")),
        a_folder(tmp_path / "there", elsewhere("run-2")),
    )
    merged = merge([here, there], tmp_path / "all")
    assert merged.hosts == ("7" * 64, "8" * 64)
    assert merged.repeated == ()
    assert len(ResultStore.existing(tmp_path / "all").results()) == 2


def test_what_two_directories_measured_alike_is_named_and_kept_twice(tmp_path: Path) -> None:
    older = a_folder(tmp_path / "older", of_run("run-1", timestamp="2026-11-28T00:00:00+00:00"))
    newer = a_folder(tmp_path / "newer", of_run("run-2"))
    (sentence,) = merge([newer, older], tmp_path / "all").repeated
    assert a_cell().short_key in sentence
    assert str(newer) in sentence
    assert str(older) in sentence
    store = ResultStore.existing(tmp_path / "all")
    assert [result.metadata.run_id for result in store.history()] == ["run-2", "run-1"]
    assert [result.metadata.run_id for result in store.results()] == ["run-2"]
    (latest,) = (tmp_path / "all").glob("latest/**/*.json")
    assert Result.model_validate_json(latest.read_bytes()).metadata.run_id == "run-2"


def test_one_run_and_key_with_two_contents_is_a_conflict_and_the_first_stays(tmp_path: Path) -> None:
    one = a_folder(tmp_path / "one", of_run("run-1"))
    other = a_folder(tmp_path / "other", of_run("run-1", licence="mit"))
    merged = merge([one, other], tmp_path / "all")
    (sentence,) = merged.left_out
    assert f"{one}, which is kept, and {other}, which is left out" in sentence
    assert ResultStore.existing(tmp_path / "all").history() == [of_run("run-1")]


def test_a_torn_line_is_reported_and_not_merged(shards: list[Path]) -> None:
    for shard in shards:
        with (shard / "history.jsonl").open("ab") as file:
            file.write(a_failure().model_dump_json().encode()[:50])
    merged = merge(shards[:1], shards[1])
    assert len(merged.torn) == 1
    assert f"{shards[0] / 'history.jsonl'}, line 3" in merged.torn[0]
    store = ResultStore.existing(shards[1])
    assert len(store.history()) == 3
    assert len(store.warnings) == 1  # its own


def test_a_last_line_without_its_newline_is_merged(shards: list[Path], tmp_path: Path) -> None:
    for shard in shards:
        history = shard / "history.jsonl"
        history.write_bytes(history.read_bytes().rstrip(b"\n"))
    assert merge(shards, tmp_path / "all").added == 3
    assert merge(shards[:1], shards[1]).added == 2
    for folder in (tmp_path / "all", shards[1]):
        assert len(ResultStore.existing(folder).history()) == 3


def test_lines_of_an_older_schema_are_merged_as_they_are(tmp_path: Path) -> None:
    golden = Path(__file__).with_name("golden") / "schema_1"
    assert merge([golden], tmp_path / "all").added == 1
    assert (tmp_path / "all" / "history.jsonl").read_bytes() == (golden / "history.jsonl").read_bytes()


def test_a_run_that_was_killed_gets_its_file_in_the_merged_directory(tmp_path: Path) -> None:
    killed = ResultStore.open(tmp_path / "killed")
    killed.add(of_run("run-1"))
    for _ in range(3):
        merge([tmp_path / "killed"], tmp_path / "all")
        ResultStore.open(tmp_path / "all")
        merge([tmp_path / "killed"], tmp_path / "all")
    ResultStore.open(tmp_path / "all")
    (path,) = (tmp_path / "all").glob("*/*_benchmark_*.json")
    assert len(json.loads(path.read_text())) == 1
    assert not list((tmp_path / "killed").glob("*/*_benchmark_*.json"))
    killed.finish_runs()


def test_results_of_other_tools_come_along_once(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path / "one")
    for each in read(FOREIGN):
        store.add_imported(each)
    for _ in range(2):
        merge([tmp_path / "one"], tmp_path / "all")
    assert ResultStore.existing(tmp_path / "all").imported() == store.imported()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"garbage\n", "not JSON"),
        (a_failure().model_dump_json().encode()[:90] + b"\n", "not JSON"),
        (a_failure().model_dump_json().encode()[:-40] + a_result().model_dump_json().encode() + b"\n", "not JSON"),
        (
            a_result()
            .model_dump_json()
            .encode()
            .replace(b'"schema_version":%d' % SCHEMA_VERSION, b'"schema_version":%d' % (SCHEMA_VERSION + 1))
            + b"\n",
            "upgrade the harness",
        ),
    ],
)
def test_nothing_is_written_where_a_history_is_damaged_or_newer(
    shards: list[Path], tmp_path: Path, line: bytes, said: str
) -> None:
    with (shards[1] / "history.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(HarnessError, match=said) as refusal:
        merge(shards, tmp_path / "all")
    assert f"{shards[1] / 'history.jsonl'}, line 2" in str(refusal.value)
    assert [path.name for path in (tmp_path / "all").iterdir()] == [".lock"]


def test_a_folder_without_results_and_one_into_itself_are_refused(shards: list[Path], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"holds no history\.jsonl"):
        merge([*shards, tmp_path], tmp_path / "all")
    with pytest.raises(HarnessError, match="into itself"):
        merge(shards, shards[0])
    assert not (tmp_path / "all").exists()


def test_a_merge_that_cannot_copy_a_file_leaves_none_half_copied(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second sync fails, as on a disk that has just filled up: by then all copies are laid."""
    synced: list[Path] = []

    def sync_all(path: Path) -> None:
        synced.append(path)
        if len(synced) == 2:
            raise HarnessError("there is no room")

    monkeypatch.setattr(durable, "sync_all", sync_all)
    with pytest.raises(HarnessError, match="no room"):
        merge(shards, tmp_path / "all")
    assert len(synced) == 2
    assert not list((tmp_path / "all").rglob("*.tmp"))
    monkeypatch.undo()
    assert merge(shards, tmp_path / "all").left_out == ()
