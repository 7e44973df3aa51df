"""The plugins as the host sees them: no framework, no environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from harness_onnxruntime import plugin as onnxruntime
from harness_pytorch import plugin as pytorch

from harness import plugins
from harness.model import Backend, Cell, OptionValue
from harness.support import refusal
from harness.tasks import TASKS

BACKENDS: Mapping[str, Backend] = {
    backend.name: backend for plugin in (pytorch, onnxruntime) for backend in plugin.harness_register_backends()
}
BERT = {"model_type": "bert", "vocab_size": 9, "architectures": ["BertForMaskedLM"], "max_position_embeddings": 512}
GPT2 = {"model_type": "gpt2", "vocab_size": 9, "architectures": ["GPT2LMHeadModel"], "n_positions": 1024}
LLAMA = {"model_type": "llama", "vocab_size": 9, "architectures": ["LlamaForCausalLM"]}
DECODING = {"task": "text-generation", "operation": "decode", "new_tokens": 8}
T5 = {
    "model_type": "t5",
    "vocab_size": 9,
    "is_encoder_decoder": True,
    "architectures": ["T5ForConditionalGeneration"],
}
VIT = {"model_type": "vit", "num_channels": 3, "architectures": ["ViTForImageClassification"]}


def cell(backend: str = "eager", options: Mapping[str, OptionValue] | None = None, **axes: Any) -> Cell:
    return Cell(model="m", checkpoint="c", threads=2, backend=backend, options=dict(options or {}), **axes)


def reason(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    backend = BACKENDS[cell.backend]
    return refusal(cell, backend, model_config) or backend.supports(cell, model_config)


@pytest.fixture(params=sorted(BACKENDS))
def name(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


def test_installed_plugins_offer_eager_sdpa_compile_and_onnxruntime() -> None:
    assert {"eager", "sdpa", "compile", "onnxruntime"} <= plugins.load().backends.keys()


def test_describing_backends_imports_no_framework() -> None:
    script = """
import sys
for name in ("torch", "transformers", "onnxruntime", "onnx", "optimum", "jax", "flax"):
    sys.modules[name] = None
import harness_pytorch.plugin, harness_onnxruntime.plugin
backends = [*harness_pytorch.plugin.harness_register_backends(), *harness_onnxruntime.plugin.harness_register_backends()]
assert len(backends) == 5
"""
    subprocess.run([sys.executable, "-I", "-c", script], check=True)


def test_options_that_are_not_set_are_left_to_the_framework(name: str) -> None:
    assert all(option.default is None for option in BACKENDS[name].options)


def test_backends_of_one_plugin_share_their_stack() -> None:
    assert BACKENDS["eager"].stack == BACKENDS["sdpa"].stack == BACKENDS["compile"].stack


@pytest.mark.parametrize(
    ("task", "model_config"),
    [
        ("feature-extraction", BERT),
        ("fill-mask", BERT),
        ("text-generation", GPT2),
        ("feature-extraction", T5),
        ("text2text-generation", T5),
        ("feature-extraction", VIT),
        ("image-classification", VIT),
    ],
)
def test_a_task_that_the_model_has_a_head_for_is_supported(name: str, task: str, model_config: dict[str, Any]) -> None:
    assert reason(cell(name, task=task), model_config) is None


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_refused_for_a_model_whose_config_is_not_known(name: str, task: str) -> None:
    assert reason(cell(name, task=task, sequence_length=100_000), {}) is None


@pytest.mark.parametrize(
    ("axes", "model_config", "said"),
    [
        ({"operation": "decode", "new_tokens": 8}, {}, "operation decode: task feature-extraction generates nothing"),
        ({"dtype": "int4"}, {}, "dtype int4: on cpu {name} runs float32"),
        ({"device": "tpu"}, {}, "device tpu: {name} runs on cpu, cuda"),
        ({}, {"model_type": "bart", "vocab_size": 9, "is_encoder_decoder": True}, "the encoder of model type bart"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(
    name: str, axes: dict[str, Any], model_config: dict[str, Any], said: str
) -> None:
    found = reason(cell(name, **axes), model_config)
    assert found is not None
    assert said.format(name=name) in found


def test_attention_by_sdpa_is_refused_where_transformers_has_none(name: str) -> None:
    found = reason(cell(name), {"model_type": "resnet", "num_channels": 3})
    if name in ("sdpa", "compile"):
        assert found == "model type resnet: Transformers has no attention by scaled_dot_product_attention for it"
    else:
        assert found is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compile", None),
        ("onnxruntime", None),
        ("eager", "compile_cache warm: eager keeps no compile cache and no artefact"),
        ("sdpa", "compile_cache warm: sdpa keeps no compile cache and no artefact"),
        (
            "eager_onnxruntime_stack",
            "compile_cache warm: eager_onnxruntime_stack keeps no compile cache and no artefact",
        ),
    ],
)
def test_a_warm_start_is_for_backends_that_compile_or_export(name: str, reason: str | None) -> None:
    assert plugins.load().supports(cell(name, compile_cache="warm"), BERT) == reason


def test_eager_of_the_onnxruntime_stack_differs_from_eager_in_its_stack_alone() -> None:
    control, eager = BACKENDS["eager_onnxruntime_stack"], BACKENDS["eager"]
    assert control.stack == BACKENDS["onnxruntime"].stack
    assert "harness_pytorch" in control.stack.packages
    assert (control.runner, control.options, control.expects) == (eager.runner, eager.options, eager.expects)
    assert (eager.by_default, control.by_default) == (True, False)


def test_sixteen_bit_is_for_pytorch_only(name: str) -> None:
    for dtype in ("bfloat16", "float16"):
        assert (reason(cell(name, dtype=dtype), BERT) is None) == (name != "onnxruntime")


def test_int8_is_for_what_can_quantise_and_on_the_cpu_only(name: str) -> None:
    assert (reason(cell(name, dtype="int8"), BERT) is None) == (name != "compile")
    assert "dtype int8: on cuda" in str(reason(cell(name, dtype="int8", device="cuda"), BERT))


@pytest.mark.parametrize(
    ("name", "axes", "model_config", "said"),
    [
        (
            "eager",
            {"task": "text-generation"},
            GPT2,
            "dtype int8: model type gpt2 has layers Conv1D in place of Linear",
        ),
        ("onnxruntime", {"task": "text-generation"}, GPT2, "None"),
        ("sdpa", {}, VIT, "dtype int8: it is for models of text"),
        ("onnxruntime", {}, VIT, "dtype int8: it is for models of text"),
        ("onnxruntime", {"options": {"optimum_level": "O2"}}, BERT, "dtype int8: it is made of the graph as exported"),
        ("onnxruntime", DECODING, LLAMA, "dtype int8: decode would soon make other tokens than in float32"),
        ("eager", DECODING, LLAMA, "dtype int8: decode would soon make other tokens than in float32"),
    ],
)
def test_what_quantising_would_leave_as_it_is_is_refused(
    name: str, axes: dict[str, Any], model_config: dict[str, Any], said: str
) -> None:
    assert said in str(reason(cell(name, dtype="int8", **axes), model_config))


def test_onnxruntime_refuses_architectures_that_the_exporter_does_not_have() -> None:
    found = reason(cell("onnxruntime"), {"model_type": "mamba2", "vocab_size": 9})
    assert found == "model type mamba2: optimum's ONNX exporter does not have it for feature-extraction"
    assert reason(cell("eager"), {"model_type": "mamba2", "vocab_size": 9}) is None


def test_onnxruntime_refuses_to_optimise_what_the_optimiser_does_not_have() -> None:
    found = reason(cell("onnxruntime", {"optimum_level": "O2"}), {"model_type": "qwen2", "vocab_size": 9})
    assert found == "optimum_level O2: optimum's optimiser does not have model type qwen2"


def test_onnxruntime_refuses_generate_where_optimum_would_take_heads_to_have_another_width() -> None:
    wide = {"model_type": "qwen3", "vocab_size": 9, "hidden_size": 1024, "num_attention_heads": 16, "head_dim": 128}
    found = {
        operation: reason(cell("onnxruntime", task="text-generation", operation=operation, new_tokens=8), wide)
        for operation in ("decode", "generate")
    }
    assert found["decode"] is None
    assert found["generate"] is not None
    assert (
        "64 wide (hidden_size / num_attention_heads), this model's are 128; prefill and decode run it"
        in found["generate"]
    )


def test_onnxruntime_refuses_the_level_that_would_be_float16_in_silence() -> None:
    found = reason(cell("onnxruntime", {"optimum_level": "O4"}), {})
    assert found is not None
    assert "float16" in found


@pytest.mark.parametrize(
    ("axes", "reason_given"),
    [
        ({"num_beams": 2}, "num_beams 2: Transformers' beam search runs the model uncompiled"),
        (
            {"new_tokens": 1},
            "new_tokens 1: Transformers' generate compiles the steps after the first token, and there is none",
        ),
        ({"do_sample": True}, None),
    ],
)
def test_compile_generates_where_transformers_compiles(axes: dict[str, Any], reason_given: str | None) -> None:
    asked = {"task": "text-generation", "operation": "generate", "new_tokens": 8} | axes
    assert reason(cell("compile", **asked), GPT2) == reason_given
    assert reason(cell("eager", **asked), GPT2) is None


def test_cuda_graphs_need_a_gpu() -> None:
    cpu = cell("compile", {"mode": "reduce-overhead"})
    assert reason(cpu, BERT) == "mode reduce-overhead stands for CUDA graphs, which device cpu does not have"
    assert reason(cell("compile", {"mode": "reduce-overhead"}, device="cuda"), BERT) is None
