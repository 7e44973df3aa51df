"""What a line of the history leaves to `parts.jsonl`, and what happens where a part is missing, damaged or torn."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model import HarnessError, LaunchSummary, Measurements, Monitoring, Result, Status
from harness.query import Question, ask
from harness.store import ResultStore, durable, layout
from harness.store.heads import Heads, _head_of
from harness.store.lines import shortened
from harness.store.merging import merge
from store.factories import a_cell, a_failure, a_result
from store.strategies import records

FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def a_summary(key: str, launch_id: str) -> LaunchSummary:
    return LaunchSummary(
        launch_id=launch_id,
        block_id="block-1",
        folder=layout.launch_folder(key, launch_id),
        status=Status.OK,
        median_latency_s=0.125,
        throughput=None,
        samples=200,
        cold_start_s=0.6,
    )


def measured(**metadata: object) -> Result:
    """With all that a line leaves out."""
    cell = a_cell()
    numbers = Measurements(
        median_latency_s=0.125,
        per_launch=[a_summary(cell.key, name) for name in ("launch-1", "launch-2")],
        reasons={"compile_s": "eager compiles nothing"},
        monitoring=Monitoring(cpu_utilisation_mean=0.9, reasons={"gpu_uuid": "the cell runs on cpu"}),
    )
    told = {"environment": {"host": {"cpu_model": "AMD EPYC", "cpu_governor": None}}, "requested": {"threads": 2}}
    return a_result(cell, measurements=numbers, **{**told, **metadata})


def stored_lines(root: Path, name: str = "history.jsonl") -> list[dict[str, object]]:
    return [json.loads(line) for line in (root / name).read_text().splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A history of one result."""
    root = tmp_path / "results"
    ResultStore.open(root).add(measured())
    return root


def test_a_line_has_numbers_and_configuration_and_names_the_parts_with_the_rest(root: Path) -> None:
    (line,) = stored_lines(root)
    assert list(line) == ["schema_version", "crc32", "key", "parts", "metadata", "measurements", "config"]
    assert set(line["metadata"]) == {"run_id", "timestamp", "status"}
    assert set(line["measurements"]) >= {"median_latency_s", "monitoring", "per_launch", "samples"}
    assert None not in line["measurements"].values()
    assert line["measurements"]["per_launch"]["launch_id"] == ["launch-1", "launch-2"]
    assert "folder" not in line["measurements"]["per_launch"]
    names = [part["sha256"] for part in stored_lines(root, "parts.jsonl")]
    assert list(line["parts"].values()) == names


def test_what_was_left_out_is_there_again_when_it_is_read(root: Path) -> None:
    assert ResultStore.existing(root).history() == [measured()]


def test_a_launch_elsewhere_than_the_layout_has_it_keeps_its_folder(root: Path) -> None:
    numbers = Measurements(per_launch=[a_summary("another", "launch-1")])
    result = a_result(a_cell(batch_size=2), measurements=numbers)
    ResultStore.open(root).add(result)
    assert ResultStore.existing(root).history()[-1] == result


def test_results_share_the_parts_that_are_equal_and_only_those(root: Path) -> None:
    store = ResultStore.open(root)
    before = len(stored_lines(root, "parts.jsonl"))
    store.add(measured(run_id="run-2"))
    assert len(stored_lines(root, "parts.jsonl")) == before
    store.add(measured(run_id="run-3", requested={"threads": 1}))
    assert len(stored_lines(root, "parts.jsonl")) == before + 1
    assert [each.metadata.requested["threads"] for each in store.history()] == [2, 2, 1]


def test_a_head_is_found_without_reading_the_line_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("harness.store.heads.parse")
    assert [line.head for line in Heads(root).lines()] == [_head_of(measured())]


@FEW
@given(st.lists(records(Result), min_size=1, max_size=3))
def test_the_head_of_a_line_is_the_head_of_its_result(results: list[Result]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore.open(Path(folder))
        for result in [*results, measured(), a_failure()]:
            store.add(result)
        heads = [line.head for line in Heads(Path(folder)).lines()]
        assert heads == [_head_of(result) for result in store.history()]


def test_text_of_a_result_that_looks_like_a_line_is_not_taken_for_one(root: Path) -> None:
    result = a_failure(message='"status":"ok","parts":{"run":"","hashes":{"key":"')
    ResultStore.open(root).add(result)
    assert ResultStore.existing(root).history()[-1] == result
    *_, last = Heads(root).lines()
    assert last.head == _head_of(result)


# --- damage ---------------------------------------------------------------------------------------------------------


def ways_to_read(root: Path) -> None:
    """Each must say the same."""
    for read in (ResultStore.open, ResultStore.existing, lambda root: merge([root], root.parent / "all"), asked):
        with pytest.raises(HarnessError) as refusal:
            read(root)
        yield str(refusal.value)


def asked(root: Path) -> None:
    with ask(root, Question()) as answer:
        list(answer.rows)


def test_a_missing_part_is_told_by_line_and_brought_back_mends_it(root: Path) -> None:
    (root / "parts.jsonl").rename(root.parent / "parts.jsonl")
    history = (root / "history.jsonl").read_bytes()
    for said in ways_to_read(root):
        assert f"{root / 'history.jsonl'}, line 1 needs the part" in said
        assert f"{root / 'parts.jsonl'} lacks" in said
        assert "\n" not in said
    assert (root / "history.jsonl").read_bytes() == history
    (root.parent / "parts.jsonl").rename(root / "parts.jsonl")
    assert ResultStore.existing(root).history() == [measured()]


@pytest.mark.parametrize("damage", [(b'"threads":2', b'"threads":3'), (b"}", b"]"), (b'"sha256"', b'"md5"')])
def test_a_part_that_is_not_what_its_name_says_is_refused_by_file_and_line(
    root: Path, damage: tuple[bytes, bytes]
) -> None:
    parts = root / "parts.jsonl"
    lines = parts.read_bytes().splitlines(keepends=True)
    parts.write_bytes(lines[0] + lines[1].replace(*damage) + lines[2])
    before = parts.read_bytes()
    for said in ways_to_read(root):
        assert f"{parts}, line 2 was damaged or altered" in said
        assert "bring parts.jsonl back from a copy" in said
    assert parts.read_bytes() == before


def test_a_line_that_names_its_parts_in_another_way_is_refused(root: Path) -> None:
    history = root / "history.jsonl"
    (line,) = stored_lines(root)
    for parts in ({"run": 7}, {}, {"run": line["parts"]["cell"]}):
        history.write_text(json.dumps({**line, "parts": parts}, separators=(",", ":")) + "\n")
        with pytest.raises(HarnessError, match=r"history\.jsonl, line 1"):
            ResultStore.existing(root).history()


ALTERED = [
    ('"median_latency_s":0.125', '"median_latency_s":"fast"'),
    ('"median_latency_s":0.125', '"median_latency_s":0.012'),
    ('"samples":[200,200]', '"samples":[200]'),
    ('"status":"ok"', '"status":"kaputt"'),
    ('"timestamp":"2', '"timestamp":"yesterday, 2'),
    ('"backend":"', '"backend":"un'),
]


@pytest.mark.parametrize("change", ALTERED)
def test_a_line_that_is_not_as_it_was_written_is_refused_whoever_reads_it_and_merged_nowhere(
    root: Path, change: tuple[str, str]
) -> None:
    history = root / "history.jsonl"
    before = history.read_text()
    history.write_text(before.replace(*change, 1))
    assert history.read_text() != before
    for said in ways_to_read(root):
        assert f"{history}, line 1 was damaged or altered" in said
    assert not (root.parent / "all" / "history.jsonl").exists()


def test_a_history_with_other_line_ends_and_empty_lines_behind_its_parts_is_read_as_before(root: Path) -> None:
    for name in ("history.jsonl", "parts.jsonl"):
        (root / name).write_bytes((root / name).read_bytes().replace(b"\n", b"\r\n"))
    with (root / "parts.jsonl").open("ab") as file:
        file.write(b"\n\n")
    assert ResultStore.existing(root).history() == [measured()]


def test_where_the_history_is_gone_its_parts_say_so(root: Path) -> None:
    (root / "history.jsonl").unlink()
    with pytest.raises(HarnessError, match=r"has results, but its history\.jsonl is gone: bring it back"):
        ResultStore.existing(root)


@pytest.mark.parametrize("cut", [5, 30, -2])
def test_a_part_that_a_kill_has_cut_short_hides_nothing_and_is_written_again(root: Path, cut: int) -> None:
    """Its line of the history was never begun."""
    result = measured(run_id="run-2", requested={"threads": 1})
    new = next(line for name, line in shortened(result).parts.items() if name not in known_parts(root))
    with (root / "parts.jsonl").open("ab") as file:
        file.write(new[:cut])
    assert ResultStore.existing(root).history() == [measured()]
    ResultStore.open(root).add(result)
    for folder in (root, root.parent / "all"):
        assert ResultStore.existing(folder).history() == [measured(), result]
        asked(folder)
        merge([root], root.parent / "all")


def known_parts(root: Path) -> set[object]:
    return {line["sha256"] for line in stored_lines(root, "parts.jsonl")}


def test_parts_are_on_disk_before_the_line_that_names_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[str] = []
    plain = durable.append
    monkeypatch.setattr(durable, "append", lambda path, data: (appended.append(path.name), plain(path, data)))
    ResultStore.open(root).add(measured(run_id="run-2", requested={"threads": 1}))
    assert appended == ["parts.jsonl", "history.jsonl"]


def test_parts_that_stand_twice_count_once(root: Path) -> None:
    parts = root / "parts.jsonl"
    parts.write_bytes(parts.read_bytes() * 2)
    with ask(root, Question(whole_history=True)) as answer:
        assert len(list(answer.rows)) == 1
