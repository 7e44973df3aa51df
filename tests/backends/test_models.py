"""The kinds of models that the backends run, each in its real stack. The judge is eager of the pytorch stack."""

from __future__ import annotations

import json

import pytest
from harness_pytorch.architectures import ENCODERS, WITHOUT_LINEAR, WITHOUT_SDPA
from launches import BATCH, HERE, ITEMS, SEQUENCE, Lab, Question, largest_difference

from harness.model import Cell

pytestmark = pytest.mark.stacks

FEATURES, GENERATION = "feature-extraction", "text-generation"
BERT = ("random:bert", FEATURES)
GPT2 = ("random:gpt2", GENERATION)
LLAMA = ("random:llama?rope_theta=50&tie_word_embeddings=true", GENERATION)
MISTRAL = ("random:mistral?sliding_window=null", GENERATION)
T5 = ("random:t5", FEATURES)
VIT = ("random:vit", FEATURES)
RESNET = ("random:resnet", FEATURES)

EVERY = (BERT, GPT2, LLAMA, MISTRAL, T5, VIT)
CASES = [
    *[("sdpa", *model) for model in EVERY],
    ("compile", *VIT),  # test_compile, test_generation_torch and test_task_parity have others: compiling takes seconds
    *[("onnxruntime", *model) for model in (LLAMA, MISTRAL, RESNET)],  # so do test_onnxruntime and test_task_parity
    *[("eager_onnxruntime_stack", *model) for model in (*EVERY, RESNET)],
]
PLAIN = (T5, VIT, RESNET)


@pytest.fixture(scope="module")
def models(lab: Lab) -> Lab:
    """The lab with every case asked, in one process for each backend."""
    for backend in ("eager", *dict.fromkeys(name for name, _, _ in CASES)):
        wanted = [(source, task) for name, source, task in CASES if name == backend] or [*EVERY, RESNET]
        lab.ask_together([Question(backend, *model) for model in wanted])
    return lab


@pytest.mark.parametrize(("backend", "source", "task"), CASES)
def test_a_backend_agrees_with_eager(models: Lab, backend: str, source: str, task: str) -> None:
    told, eager = models.ask(Question(backend, source, task)), models.ask(Question("eager", source, task))
    assert largest_difference(told.outputs, eager.outputs) < 1e-4
    assert told.report["effective"].items() >= models.backends[backend].expects.items()


def test_eager_gives_what_plain_transformers_gives(models: Lab) -> None:
    questions = [Question("eager", *model) for model in PLAIN]
    for question, plain in zip(questions, models.plain_transformers(questions), strict=True):
        assert largest_difference(models.ask(question).outputs, plain) == 0


def test_images_are_counted_and_not_tokens(models: Lab) -> None:
    assert models.ask(Question("eager", *VIT)).report["items"] == {"images": BATCH}


def test_of_an_encoder_decoder_only_the_encoder_is_loaded(models: Lab) -> None:
    report = models.ask(Question("eager", *T5)).report
    assert report["details"]["model_class"] == "T5EncoderModel"
    assert report["items"] == ITEMS


def test_the_control_runs_eager_with_the_other_transformers(models: Lab) -> None:
    here, there = (models.ask(Question(name, *GPT2)).report for name in ("eager", "eager_onnxruntime_stack"))
    assert here["versions"]["torch"] == there["versions"]["torch"]
    assert here["versions"]["transformers"].startswith("5.")
    assert there["versions"]["transformers"].startswith("4.")
    assert here["effective"] == there["effective"]
    assert [name for name, _ in there["stages"]["load"]] == ["read", "to_device"]


def test_the_lists_of_model_types_are_those_of_the_locked_transformers(lab: Lab) -> None:
    models = lab.told_by("eager", HERE / "transformers_models.py")
    assert set(models["without_sdpa"]) == WITHOUT_SDPA
    assert set(models["encoders"]) == ENCODERS
    assert set(models["conv1d"]) == WITHOUT_LINEAR


@pytest.mark.parametrize(("source", "task"), [*EVERY, RESNET])
def test_what_is_refused_is_refused_from_the_config_alone(lab: Lab, source: str, task: str) -> None:
    config = json.loads((lab.checkpoint(source) / "config.json").read_text())
    refused = {
        name: backend.supports(
            Cell(model=source, checkpoint=source, task=task, sequence_length=SEQUENCE, threads=2, backend=name), config
        )
        for name, backend in lab.backends.items()
        if name != "flax"
    }
    without_attention = {"sdpa", "compile"} if (source, task) == RESNET else set()
    assert {name for name, reason in refused.items() if reason} == without_attention
