"""Where Transformers' Flax code is wrong without an error: repaired, or refused. The judge is eager, of the other stack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from launches import HERE, Lab, Outputs, Question, largest_difference

pytestmark = pytest.mark.stacks

GENERATION = "text-generation"
RIGHT = 1e-4  # another order of summation differs by less
WRONG = 0.3  # of logits around 1.6

THETA = "random:llama?rope_theta=50"
TIED = "random:llama?tie_word_embeddings=true&rope_theta=50"
NO_WINDOW = "random:mistral?sliding_window=null"
WINDOW = "random:mistral?sliding_window=8"
WRONG_PATHS = [("rotary_theta", THETA), ("tied_head", TIED), ("sliding_window", NO_WINDOW), ("sliding_window", WINDOW)]


def eager(lab: Lab, source: str) -> Outputs:
    return lab.ask(Question("eager", source, GENERATION)).outputs


def without(lab: Lab, repair: str, source: str) -> Outputs:
    return lab.outputs_of("flax", HERE / "flax_without_repair.py", source, GENERATION, repair)


def plain(lab: Lab, source: str) -> Outputs:
    return lab.outputs_of("flax", HERE / "flax_plain.py", source, GENERATION)


@pytest.fixture
def changed(lab: Lab, tmp_path: Path) -> Any:
    """Makes a copy of a checkpoint with another config."""

    def change(source: str, **settings: Any) -> str:
        folder = tmp_path / "checkpoint"
        shutil.copytree(lab.checkpoint(source), folder, copy_function=shutil.copyfile)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **settings}))
        return f"path:{folder}"

    return change


@pytest.mark.parametrize(("repair", "source"), WRONG_PATHS)
def test_a_wrong_path_is_repaired(lab: Lab, repair: str, source: str) -> None:
    told = lab.ask(Question("flax", source, GENERATION))
    assert repair in told.report["details"]["repairs"]
    assert 0 < largest_difference(told.outputs, eager(lab, source)) < RIGHT


@pytest.mark.parametrize(("repair", "source"), [case for case in WRONG_PATHS if case[0] != "tied_head"])
def test_each_repair_is_what_makes_it_right(lab: Lab, repair: str, source: str) -> None:
    assert largest_difference(without(lab, repair, source), eager(lab, source)) > WRONG


def test_a_tied_head_is_never_left_at_random_numbers(lab: Lab) -> None:
    said = "Unsupported: FlaxLlamaForCausalLM needs 1 weights that the checkpoint lacks, as lm_head.kernel"
    with pytest.raises(AssertionError, match=said):
        without(lab, "tied_head", TIED)
    assert largest_difference(plain(lab, TIED), eager(lab, TIED)) > WRONG  # as Transformers leaves it


@pytest.mark.parametrize("model_type", ["t5", "mt5"])
def test_encoders_of_the_t5_kind_run_on_this_jax(lab: Lab, changed: Any, model_type: str) -> None:
    source = changed("random:t5", model_type=model_type)
    flax, reference = (lab.ask(Question(name, source, "feature-extraction")) for name in ("flax", "eager"))
    assert flax.report["details"]["repairs"] == ["clip"]
    assert 0 < largest_difference(flax.outputs, reference.outputs) < RIGHT


def test_without_the_repair_they_fail(lab: Lab) -> None:
    with pytest.raises(AssertionError, match="TypeError: clip"):
        lab.outputs_of("flax", HERE / "flax_without_repair.py", "random:t5", "feature-extraction", "clip")


def test_a_base_model_needs_no_head(lab: Lab) -> None:
    told = lab.ask(Question("flax", TIED, "feature-extraction"))
    assert told.report["details"]["repairs"] == ["rotary_theta"]
    reference = lab.ask(Question("eager", TIED, "feature-extraction"))
    assert 0 < largest_difference(told.outputs, reference.outputs) < RIGHT


def test_a_model_that_takes_no_wrong_path_is_left_alone(lab: Lab) -> None:
    assert lab.ask(Question("flax", "random:gpt2", GENERATION)).report["details"]["repairs"] == []


def test_weights_are_found_under_the_prefix_that_pytorch_gives_them(lab: Lab, changed: Any) -> None:
    source = changed("random:roberta", model_type="xlm-roberta", architectures=["XLMRobertaForMaskedLM"])
    flax, reference = (lab.ask(Question(name, source, "feature-extraction")) for name in ("flax", "eager"))
    assert 0 < largest_difference(flax.outputs, reference.outputs) < RIGHT


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("random:gpt2", {"scale_attn_by_inverse_layer_idx": True}),
        ("random:gpt2", {"scale_attn_weights": False}),
        ("random:llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": None}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_what_is_refused_would_have_been_wrong(lab: Lab, changed: Any, source: str, settings: dict[str, Any]) -> None:
    source = changed(source, **settings)
    wrong = lab.ask(Question("flax", source, GENERATION))
    assert largest_difference(wrong.outputs, eager(lab, source)) > WRONG
