"""Accuracy, from the matrix file to the exported row: once for each cell, in its first launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_bench import Bench
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from harness.accuracy import texts
from harness.model import LaunchRecord


def give_tokenizer(model: Path) -> None:
    """The bench's model knows 64 tokens: words share them."""
    words = {word for sentence in texts.sentences() for word, _ in Whitespace().pre_tokenize_str(sentence)}
    vocabulary = {"[UNK]": 0, **{word: 1 + place % 60 for place, word in enumerate(sorted(words))}}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.save(str(model / "tokenizer.json"))


def launches(bench: Bench, key: str) -> list[LaunchRecord]:
    """In the order of their blocks."""
    files = (bench.results / "launches" / key).glob("*/launch.json")
    found = [LaunchRecord.model_validate_json(file.read_text()) for file in files]
    return sorted(found, key=lambda launch: launch.block_index)


def row(bench: Bench, backend: str) -> Mapping[str, Any]:
    return next(row for row in bench.rows() if row["backend"] == backend)


def test_the_first_launch_of_a_cell_tells_accuracy_and_its_row_and_the_report_have_it(bench: Bench) -> None:
    give_tokenizer(bench.folder / "model")
    bench.write_matrix(sequence_length=[16], protocol={"blocks": 2})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    exported = row(bench, "fake_b")
    first, second = launches(bench, exported["key"])
    assert first.accuracy is not None
    assert (first.accuracy.metric, first.accuracy.count) == ("spearman", len(texts.pairs()))
    assert second.accuracy is None
    assert (exported["accuracy_metric"], exported["accuracy_value"]) == ("spearman", first.accuracy.value)
    assert "accuracy beside speed" in run.stdout


def test_without_a_tokenizer_there_is_none_and_the_row_says_why(bench: Bench) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    exported = row(bench, "fake")
    assert (exported["accuracy_metric"], exported["accuracy_value"]) == (None, None)
    assert json.loads(exported["reasons"])["accuracy_value"] == "the checkpoint has no tokenizer.json to read text with"
    assert "accuracy beside speed" not in run.stdout


def test_a_protocol_may_ask_for_none(bench: Bench) -> None:
    give_tokenizer(bench.folder / "model")
    bench.write_matrix(sequence_length=[16], protocol={"blocks": 1, "accuracy": False})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert json.loads(row(bench, "fake")["reasons"])["accuracy_value"] == "the protocol asks for no accuracy"
