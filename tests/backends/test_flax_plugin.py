"""The flax plugin as the host sees it: no framework, no environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from harness_flax.architectures import MODEL_TYPES
from harness_flax.plugin import FLAX

from harness import plugins
from harness.model import Cell
from harness.support import refusal

BERT = {"model_type": "bert", "vocab_size": 9, "architectures": ["BertModel"], "max_position_embeddings": 512}
GPT2 = {"model_type": "gpt2", "vocab_size": 9, "architectures": ["GPT2LMHeadModel"], "n_positions": 1024}
T5 = {
    "model_type": "t5",
    "vocab_size": 9,
    "is_encoder_decoder": True,
    "architectures": ["T5ForConditionalGeneration"],
}
VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "num_channels": 3}
LLAMA = {"model_type": "llama", "vocab_size": 9, "hidden_size": 64, "num_attention_heads": 4}


def cell(**axes: Any) -> Cell:
    return Cell(model="m", checkpoint="c", threads=2, backend="flax", **axes)


def reason(model_config: Mapping[str, Any], **axes: Any) -> str | None:
    asked = cell(**axes)
    return refusal(asked, FLAX, model_config) or FLAX.supports(asked, model_config)


def test_the_installed_plugin_offers_flax() -> None:
    assert plugins.load().backends["flax"] == FLAX


def test_describing_the_backend_imports_no_framework() -> None:
    script = """
import sys
for name in ("torch", "transformers", "jax", "flax"):
    sys.modules[name] = None
import harness_flax.plugin
assert len(harness_flax.plugin.harness_register_backends()) == 1
"""
    subprocess.run([sys.executable, "-I", "-c", script], check=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("task", "model_config"), [("feature-extraction", BERT), ("text-generation", GPT2)])
def test_a_forward_pass_of_an_encoder_and_of_a_decoder_is_supported(
    task: str, model_config: dict[str, Any], dtype: str
) -> None:
    assert reason(model_config, task=task, dtype=dtype) is None


def test_a_warm_start_is_supported() -> None:
    assert plugins.load().supports(cell(compile_cache="warm"), BERT) is None


def test_nothing_is_refused_for_a_model_whose_config_is_not_known() -> None:
    for task in MODEL_TYPES:
        assert reason({}, task=task, sequence_length=100_000) is None


@pytest.mark.parametrize(
    ("axes", "model_config", "said"),
    [
        ({"operation": "train_step"}, {}, "operation train_step: flax runs forward, prefill, decode, generate"),
        ({"dtype": "int8"}, {}, "dtype int8: on cpu flax runs float32, bfloat16, float16"),
        ({"device": "tpu"}, {}, "device tpu: flax runs on cpu, cuda"),
        ({"task": "text-generation"}, BERT, "the checkpoint is of BertModel, which has no head for it"),
        ({}, {"model_type": "bart", "vocab_size": 9, "is_encoder_decoder": True}, "the encoder of model type bart"),
        ({"task": "text-generation"}, T5, "model type t5 is an encoder-decoder"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_in_a_sentence(
    axes: dict[str, Any], model_config: dict[str, Any], said: str
) -> None:
    found = reason(model_config, **axes)
    assert found is not None
    assert said in found


def test_architectures_without_a_flax_class_for_the_task_are_refused() -> None:
    qwen2 = {"model_type": "qwen2", "vocab_size": 9, "architectures": ["Qwen2ForCausalLM"]}
    assert reason(qwen2) == "model type qwen2: Transformers has no Flax class for it and feature-extraction"
    distilbert = {"model_type": "distilbert", "vocab_size": 9}
    assert reason(distilbert) is None
    assert reason(distilbert, task="text-generation") is not None


@pytest.mark.parametrize(
    ("task", "model_config"),
    [
        ("feature-extraction", T5),
        ("text2text-generation", T5),
        ("feature-extraction", VIT),
        ("image-classification", VIT),
        ("image-classification", {**VIT, "model_type": "resnet", "architectures": ["ResNetForImageClassification"]}),
        ("question-answering", {**BERT, "architectures": ["BertForQuestionAnswering"]}),
    ],
)
def test_encoder_decoders_images_and_heads_are_supported(task: str, model_config: dict[str, Any]) -> None:
    assert reason(model_config, task=task) is None


@pytest.mark.parametrize("operation", ["prefill", "decode", "generate"])
def test_a_prompt_is_continued_by_decoders_whose_flax_code_keeps_keys_and_values(operation: str) -> None:
    asked = {"task": "text-generation", "operation": operation, "new_tokens": None if operation == "prefill" else 4}
    bert = {**BERT, "architectures": ["BertLMHeadModel"], "is_decoder": True}
    assert reason(GPT2, **asked) is None
    assert reason({**T5, "model_type": "bart"}, **{**asked, "task": "text2text-generation"}) is None
    assert reason({"model_type": "bart", "vocab_size": 9}, **asked) is not None
    assert reason(bert, **asked) == (
        f"operation {operation}: the Flax code of bert keeps keys and values only where an encoder stands beside it"
    )
    assert reason(bert, task="text-generation") is None


@pytest.mark.parametrize(
    ("model_config", "said"),
    [
        ({**GPT2, "scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
        ({**GPT2, "scale_attn_weights": False}, "scale_attn_weights False"),
        ({**LLAMA, "mlp_bias": True}, "mlp_bias True"),
        ({**LLAMA, "head_dim": 32}, "head_dim 32: the Flax code of llama runs hidden_size / num_attention_heads"),
        ({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type linear"),
        ({**LLAMA, "rope_parameters": {"rope_type": "llama3", "rope_theta": 50.0}}, "rope_type llama3"),
        ({"model_type": "big_bird", "vocab_size": 9}, "attention_type block_sparse"),
    ],
)
def test_settings_that_the_flax_code_ignores_are_refused(model_config: dict[str, Any], said: str) -> None:
    found = reason(model_config)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    "model_config",
    [
        {**GPT2, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True},
        {**LLAMA, "mlp_bias": False, "head_dim": 16, "rope_scaling": None, "rope_theta": 50.0},
        {**LLAMA, "head_dim": None, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        {**LLAMA, "model_type": "mistral", "sliding_window": None, "tie_word_embeddings": True},
        {"model_type": "big_bird", "vocab_size": 9, "attention_type": "original_full"},
    ],
)
def test_what_the_flax_code_computes_or_the_runner_repairs_is_supported(model_config: dict[str, Any]) -> None:
    assert reason(model_config) is None
