"""Where Transformers' Flax code is wrong without an error: repaired, or refused. The judge is eager, of the other stack."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from launches import HERE, Lab, Outputs, Question, largest_difference

pytestmark = pytest.mark.stacks

FEATURES, GENERATION = "feature-extraction", "text-generation"
RIGHT = 1e-4  # another order of summation differs by less
WRONG = 0.3  # of logits around 1.6

THETA = "random:llama?rope_theta=50"
TIED = "random:llama?tie_word_embeddings=true&rope_theta=50"
NO_WINDOW = "random:mistral?sliding_window=null"
WINDOW = "random:mistral?sliding_window=8"
GPT2, T5 = "random:gpt2", "random:t5"
WRONG_PATHS = [("rotary_theta", THETA), ("tied_head", TIED), ("sliding_window", NO_WINDOW), ("sliding_window", WINDOW)]
SILENT = [case for case in WRONG_PATHS if case[0] != "tied_head"]  # which no weights speak of

Settings = Mapping[str, Any]
MT5: Settings = {"model_type": "mt5"}
XLM_ROBERTA: Settings = {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}
REFUSED: list[tuple[str, Settings]] = [
    (GPT2, {"scale_attn_by_inverse_layer_idx": True}),
    (GPT2, {"scale_attn_weights": False}),
    ("random:llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": None}),
]
CHANGED = [(T5, MT5), ("random:roberta", XLM_ROBERTA), *REFUSED]


@dataclass(frozen=True)
class Asked:
    """The lab with all asked that both stacks are asked here, in one process of each."""

    lab: Lab
    changed: Sequence[str]  # of CHANGED, as sources

    def flax(self, source: str, task: str = GENERATION) -> Mapping[str, Any]:
        report: Mapping[str, Any] = self.lab.ask(Question("flax", source, task)).report["details"]
        return report

    def difference(self, source: str, task: str = GENERATION) -> float:
        """Between the two."""
        return largest_difference(*(self.lab.ask(Question(name, source, task)).outputs for name in ("flax", "eager")))

    def source(self, base: str, settings: Settings) -> str:
        return self.changed[CHANGED.index((base, settings))]


@pytest.fixture(scope="module")
def asked(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    def change(source: str, settings: Settings) -> str:
        """A copy of a checkpoint with another config."""
        folder = tmp_path_factory.mktemp("changed") / "checkpoint"
        shutil.copytree(lab.checkpoint(source), folder, copy_function=shutil.copyfile)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **settings}))
        return f"path:{folder}"

    changed = [change(*case) for case in CHANGED]
    mt5, xlm_roberta, *refused = changed
    generation = [*(source for _, source in WRONG_PATHS), GPT2, *refused]
    features = [T5, mt5, TIED, xlm_roberta]
    questions = [Question("flax", source, GENERATION) for source in generation]
    questions += [Question("flax", source, FEATURES) for source in features]
    for backend in ("flax", "eager"):
        lab.ask_together([dataclasses.replace(question, backend=backend) for question in questions])
    return Asked(lab, changed)


def without(lab: Lab, task: str, cases: Sequence[tuple[str, str]]) -> list[Outputs]:
    """By (repair, source), what Flax says that lacks the repair."""
    questions = [Question("flax", source, task) for _, source in cases]
    repairs = ",".join(repair for repair, _ in cases)
    return lab.over_inputs(HERE / "flax_without_repair.py", questions, task, repairs, backend="flax")


@pytest.mark.parametrize(("repair", "source"), WRONG_PATHS)
def test_a_wrong_path_is_repaired(asked: Asked, repair: str, source: str) -> None:
    assert repair in asked.flax(source)["repairs"]
    assert 0 < asked.difference(source) < RIGHT


def test_each_repair_is_what_makes_it_right(asked: Asked) -> None:
    for (_, source), outputs in zip(SILENT, without(asked.lab, GENERATION, SILENT), strict=True):
        eager = asked.lab.ask(Question("eager", source, GENERATION))
        assert largest_difference(outputs, eager.outputs) > WRONG


def test_a_tied_head_is_never_left_at_random_numbers(asked: Asked) -> None:
    said = "Unsupported: FlaxLlamaForCausalLM needs 1 weights that the checkpoint lacks, as lm_head.kernel"
    with pytest.raises(AssertionError, match=said):
        without(asked.lab, GENERATION, [("tied_head", TIED)])
    asking = [Question("flax", TIED, GENERATION)]
    (plain,) = asked.lab.over_inputs(HERE / "flax_plain.py", asking, GENERATION, backend="flax")
    eager = asked.lab.ask(Question("eager", TIED, GENERATION))
    assert largest_difference(plain, eager.outputs) > WRONG  # as Transformers leaves it


def test_encoders_of_the_t5_kind_run_on_this_jax(asked: Asked) -> None:
    for source in (T5, asked.source(T5, MT5)):
        assert asked.flax(source, FEATURES)["repairs"] == ["clip"]
        assert 0 < asked.difference(source, FEATURES) < RIGHT


def test_without_the_repair_they_fail(lab: Lab) -> None:
    with pytest.raises(AssertionError, match="TypeError: clip"):
        without(lab, FEATURES, [("clip", T5)])


def test_a_base_model_needs_no_head(asked: Asked) -> None:
    assert asked.flax(TIED, FEATURES)["repairs"] == ["rotary_theta"]
    assert 0 < asked.difference(TIED, FEATURES) < RIGHT


def test_a_model_that_takes_no_wrong_path_is_left_alone(asked: Asked) -> None:
    assert asked.flax(GPT2)["repairs"] == []


def test_weights_are_found_under_the_prefix_that_pytorch_gives_them(asked: Asked) -> None:
    assert 0 < asked.difference(asked.source("random:roberta", XLM_ROBERTA), FEATURES) < RIGHT


@pytest.mark.parametrize(
    ("source", "settings"), REFUSED, ids=lambda value: value if isinstance(value, str) else next(iter(value))
)
def test_what_is_refused_would_have_been_wrong(asked: Asked, source: str, settings: Settings) -> None:
    assert asked.difference(asked.source(source, settings)) > WRONG
