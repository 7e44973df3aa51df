"""What a question finds in a history: the newest, in order, of every line that counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from store.factories import a_cell, a_failure, a_result, some_hashes

from harness.interchange.reading import read
from harness.model import SCHEMA_VERSION, HarnessError, Measurements, Result
from harness.query import FIELDS, Question, ask
from harness.report.export import row as export_row
from harness.store import ResultStore

TESTS = Path(__file__).parents[1]


def stored(root: Path, *results: Result) -> Path:
    store = ResultStore.open(root)
    for result in results:
        store.add(result)
    store.finish_runs()
    return root


def rows(root: Path, **question: Any) -> list[dict[str, Any]]:
    with ask(root, Question(**question)) as answer:
        return [dict(row) for row in answer.rows]


def measured(size: int, throughput: float | None) -> Result:
    return a_result(a_cell(batch_size=size), measurements=Measurements(throughput=throughput))


def test_without_a_question_they_come_in_order_of_writing(tmp_path: Path) -> None:
    stored(tmp_path, measured(3, 1.0), measured(1, None), measured(2, 5.0))
    assert [row["batch_size"] for row in rows(tmp_path)] == [3, 1, 2]


@pytest.mark.parametrize(("descending", "sizes"), [(False, [3, 2, 1]), (True, [2, 3, 1])])
def test_unknown_comes_last_in_either_order(tmp_path: Path, descending: bool, sizes: list[int]) -> None:
    stored(tmp_path, measured(3, 1.0), measured(1, None), measured(2, 5.0))
    assert [row["batch_size"] for row in rows(tmp_path, sort="throughput", descending=descending)] == sizes


def test_a_limit_keeps_the_total(tmp_path: Path) -> None:
    stored(tmp_path, *(measured(size, None) for size in range(1, 6)))
    with ask(tmp_path, Question("batch_size > 1", limit=2)) as answer:
        assert (answer.total, len(list(answer.rows))) == (4, 2)


def test_only_the_newest_of_each_key_on_each_host_unless_all_are_asked_for(tmp_path: Path) -> None:
    history = [
        a_result(run_id="newer", timestamp="2026-11-30T00:30:00+01:00"),
        a_result(run_id="older", timestamp="2026-11-29T23:29:59+00:00"),
        a_result(run_id="elsewhere", hashes=some_hashes(a_cell(), host_hash="8" * 64)),
        a_failure(run_id="written-last"),
        a_result(run_id="first-of-twins", timestamp="2026-12-01T00:00:00+00:00"),
        a_result(run_id="last-of-twins", timestamp="2026-12-01T00:00:00+00:00"),
    ]
    stored(tmp_path, *history)
    expected = [result.metadata.run_id for result in ResultStore.existing(tmp_path).results()]
    assert sorted(row["run_id"] for row in rows(tmp_path, columns=["run_id"])) == sorted(expected)
    assert sorted(expected) == ["elsewhere", "last-of-twins"]
    assert len(rows(tmp_path, whole_history=True)) == len(history)


def test_every_column_has_the_value_that_an_export_gives(tmp_path: Path) -> None:
    result = a_failure(a_cell(options={"level": 1}), requested={"threads": 2}, versions={"torch": "2"})
    stored(tmp_path, result)
    (found,) = rows(tmp_path, columns=list(FIELDS))
    exported = export_row(result)
    plain = {name: found[name] for name, field in FIELDS.items() if field.sql_type != "JSON"}
    assert plain == {name: exported[name] for name in plain}


def test_columns_are_those_asked_for_each_once(tmp_path: Path) -> None:
    stored(tmp_path, a_result())
    assert list(rows(tmp_path, columns=["status", "key", "status"])[0]) == ["status", "key"]


@pytest.mark.parametrize("question", [{"sort": "thruput"}, {"columns": ["key", "thruput"]}])
def test_a_column_that_is_none_is_refused_with_the_nearest(tmp_path: Path, question: dict[str, Any]) -> None:
    stored(tmp_path, a_result())
    with pytest.raises(HarnessError, match="did you mean 'throughput'"):
        rows(tmp_path, **question)


def test_torn_lines_are_warnings_and_not_counted(tmp_path: Path) -> None:
    stored(tmp_path, a_result())
    history = tmp_path / "history.jsonl"
    torn = a_failure().model_dump_json().encode()[:300]
    history.write_bytes(
        history.read_bytes() + torn + b" #torn\n" + a_failure(a_cell(batch_size=2)).model_dump_json().encode()
    )
    with history.open("ab") as file:
        file.write(b"\n" + torn)
    with ask(tmp_path, Question()) as answer:
        assert [row["status"] for row in answer.rows] == ["ok", "failed"]
        assert [f"line {number}" in warning for number, warning in zip((2, 4), answer.warnings, strict=True)] == [
            True
        ] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"garbage\n", "line 2"),
        (b"{}\n", "line 2"),
        (b'{"schema_version":%d}\n' % (SCHEMA_VERSION + 1), "schema version"),
    ],
)
def test_any_other_damage_is_refused(tmp_path: Path, line: bytes, said: str) -> None:
    stored(tmp_path, a_result())
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(HarnessError, match=said):
        rows(tmp_path)


def test_a_history_of_an_older_schema_is_asked_too(tmp_path: Path) -> None:
    shutil.copy(TESTS / "store" / "golden" / "schema_1" / "history.jsonl", tmp_path)
    (row,) = rows(tmp_path, where="batch_size == 8")
    assert row["median_latency_s"] == 0.134


def test_results_of_other_tools_alone_and_an_empty_history_give_no_rows(tmp_path: Path) -> None:
    ResultStore.open(tmp_path).add_imported(read(TESTS / "interchange" / "benchmark_v2.json")[0])
    assert rows(tmp_path, where="throughput > 1", sort="throughput") == []
    (tmp_path / "history.jsonl").touch()
    assert rows(tmp_path) == []


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"holds no history\.jsonl"):
        rows(tmp_path)


def test_an_axis_that_an_older_schema_did_not_have_is_what_it_was_for_all_then(tmp_path: Path) -> None:
    lines = [(TESTS / "store" / "golden" / f"schema_{each}" / "history.jsonl").read_text() for each in (1, 2)]
    (tmp_path / "history.jsonl").write_text("".join(lines))
    (tmp_path / "launches").mkdir()
    found = rows(tmp_path, where="padding == 'none' and num_beams == 1 and not do_sample", columns=["operation"])
    assert found == [{"operation": "forward"}] * 2
