"""What a backend declares and a model's config.json tell decides what can run, each refusal in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.model import Backend, Cell, Stack
from harness.support import checkpoint_refusal, eos_token_ids, longest_sequence, refusal
from harness.tasks import TASKS

BERT = {
    "model_type": "bert",
    "vocab_size": 1000,
    "architectures": ["BertForMaskedLM"],
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 1000, "architectures": ["GPT2LMHeadModel"], "n_positions": 64}
T5 = {
    "model_type": "t5",
    "vocab_size": 1000,
    "is_encoder_decoder": True,
    "architectures": ["T5ForConditionalGeneration"],
}
VIT = {"model_type": "vit", "num_channels": 3, "image_size": 8, "architectures": ["ViTForImageClassification"]}
RESNET = {"model_type": "resnet", "num_channels": 1, "architectures": ["ResNetForImageClassification"]}
WHISPER = {
    "model_type": "whisper",
    "vocab_size": 1000,
    "is_encoder_decoder": True,
    "architectures": ["WhisperForConditionalGeneration"],
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}
WAV2VEC2 = {"model_type": "wav2vec2", "vocab_size": 32, "architectures": ["Wav2Vec2ForCTC"], "conv_dim": [512]}
SPEECH = "automatic-speech-recognition"

BACKEND = Backend(
    name="small",
    stack=Stack("small", "small:small.lock", ("small",)),
    runner="small:Runner",
    description="",
    tasks=("feature-extraction", "fill-mask"),
    dtypes={"cpu": ("float32",), "cuda": ("float32", "float16")},
)
ANY_TASK = Backend("any", BACKEND.stack, BACKEND.runner, "")


def cell(**axes: Any) -> Cell:
    return Cell(**{"model": "m", "checkpoint": "c", "threads": 1, "backend": "small", "sequence_length": 64, **axes})


# --- what the backend declares --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"task": "text-generation"}, "task text-generation: small runs feature-extraction, fill-mask"),
        ({"operation": "decode"}, "operation decode: small runs forward"),
        ({"device": "tpu"}, "device tpu: small runs on cpu, cuda"),
        ({"dtype": "float16"}, "dtype float16: on cpu small runs float32"),
        ({"dtype": "bfloat16", "device": "cuda"}, "dtype bfloat16: on cuda small runs float32, float16"),
        ({"compile_cache": "warm"}, "compile_cache warm: small keeps no compile cache and no artefact"),
    ],
)
def test_what_a_backend_does_not_declare_it_does_not_run(axes: dict[str, Any], said: str) -> None:
    assert refusal(cell(**axes), BACKEND, {}) == said


@pytest.mark.parametrize(
    ("declared", "config", "said"),
    [
        ({"model_types": ("bert", "vit")}, {"model_type": "gpt2"}, "model type gpt2: any runs bert, vit"),
        ({"model_types": ("bert", "vit")}, {"model_type": "vit", "num_channels": 3}, None),
        ({"model_types": ("bert", "vit")}, {}, None),
        (
            {"runs_encoder_decoders": False},
            {"model_type": "t5", "is_encoder_decoder": True},
            "model type t5: any runs no encoder-decoders",
        ),
        ({"runs_encoder_decoders": False}, {"model_type": "bert", "vocab_size": 9}, None),
        ({"runs_encoder_decoders": False}, {}, None),
    ],
)
def test_models_that_a_backend_leaves_out_it_does_not_run_once_they_are_known(
    declared: dict[str, Any], config: dict[str, Any], said: str | None
) -> None:
    assert refusal(cell(), replace(ANY_TASK, **declared), config) == said


def test_a_dtype_that_only_the_other_device_has_runs_there() -> None:
    assert refusal(cell(dtype="float16", device="cuda"), BACKEND, {}) is None


# --- what the model is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "config"),
    [
        ("feature-extraction", BERT),
        ("feature-extraction", VIT),
        ("feature-extraction", T5),
        ("fill-mask", BERT),
        ("fill-mask", {**BERT, "architectures": ["BertForPreTraining"]}),
        ("text-generation", GPT2),
        ("text2text-generation", T5),
        ("text2text-generation", {**T5, "architectures": ["MarianMTModel"]}),
        ("image-classification", VIT),
        ("text-classification", {**BERT, "architectures": None}),
    ],
)
def test_a_task_that_the_checkpoint_has_a_head_for_is_run(task: str, config: Mapping[str, Any]) -> None:
    assert refusal(cell(task=task), ANY_TASK, config) is None


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_refused_for_a_model_whose_config_is_not_known(task: str) -> None:
    assert refusal(cell(task=task, sequence_length=100_000), ANY_TASK, {}) is None


@pytest.mark.parametrize(
    ("axes", "config", "said"),
    [
        ({"task": "text-classification"}, BERT, "the checkpoint is of BertForMaskedLM, which has no head for it"),
        ({"task": "text-generation"}, BERT, "the checkpoint is of BertForMaskedLM, which has no head for it"),
        ({"task": "fill-mask"}, VIT, "task fill-mask is for text: a model of type vit takes images"),
        ({"task": "question-answering"}, VIT, "is for pairs of texts: a model of type vit takes images"),
        ({"task": "image-classification"}, BERT, "is for images: a model of type bert takes text"),
        ({"task": "text-generation"}, T5, "t5 is an encoder-decoder, run for feature-extraction, text2text-generation"),
        ({"task": "text2text-generation"}, GPT2, "model type gpt2 is no encoder-decoder"),
        (
            {},
            {"model_type": "speech_to_text", "vocab_size": 9, "input_feat_per_channel": 80},
            "takes neither text, images",
        ),
        (
            {},
            {"model_type": "audio-spectrogram-transformer", "num_mel_bins": 128},
            "takes neither text, images nor audio",
        ),
        ({}, {"model_type": "clip", "text_config": BERT}, "a model of type clip takes neither"),
        ({"sequence_length": 65}, BERT, "sequence_length 65: the model has positions for 64 tokens"),
        ({"sequence_length": 65}, GPT2, "sequence_length 65: the model has positions for 64 tokens"),
        ({"sequence_length": 63}, {**BERT, "model_type": "roberta", "pad_token_id": 1}, "positions for 62 tokens"),
        ({"image_size": 16}, VIT, "image_size 16: the model takes images of 8 x 8 pixels"),
        ({"image_size": 8}, {**VIT, "image_size": [8, 16]}, "the model takes images of 8 x 16 pixels"),
        ({"image_size": 16}, BERT, "image_size 16: a model of type bert takes text"),
        ({"padding": 0.25}, VIT, "padding 0.25: images have none"),
        ({"audio_seconds": 5}, BERT, "audio_seconds 5: a model of type bert takes text"),
        ({"audio_seconds": 5}, VIT, "audio_seconds 5: a model of type vit takes images"),
        ({"task": SPEECH}, BERT, "is for audio: a model of type bert takes text"),
        ({"task": SPEECH}, {**WAV2VEC2, "architectures": ["Wav2Vec2ForPreTraining"]}, "which has no head for it"),
        ({"task": SPEECH, "image_size": 8}, WAV2VEC2, "image_size 8: a model of type wav2vec2 takes audio"),
        ({"task": SPEECH, "padding": 0.5}, WAV2VEC2, "padding 0.5: audio has none"),
        ({"task": SPEECH, "audio_seconds": 5}, WHISPER, "audio_seconds 5: the model takes 30 s of audio"),
        (
            {"task": SPEECH},
            {**WHISPER, "max_source_positions": 75},
            "the model takes 1.5 s of audio, and audio is counted",
        ),
        ({"task": SPEECH, "sequence_length": 449}, WHISPER, "the decoder has positions for 448 tokens"),
        ({"task": "text2text-generation"}, WHISPER, "is for text: a model of type whisper takes audio"),
        ({"task": "fill-mask"}, WAV2VEC2, "task fill-mask is for text: a model of type wav2vec2 takes audio"),
        ({"padding": "sampled", "sequence_length": 1}, BERT, "a row of 1 token has no room for padding"),
        ({"padding": 0.01, "sequence_length": 8}, BERT, "padding 0.01: a row of 8 tokens cannot be divided so"),
        ({"padding": 0.99, "sequence_length": 8}, {}, "padding 0.99: a row of 8 tokens cannot be divided so"),
    ],
)
def test_what_a_model_cannot_do_is_refused_for_every_backend(
    axes: dict[str, Any], config: Mapping[str, Any], said: str
) -> None:
    found = refusal(cell(**axes), ANY_TASK, config)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    ("axes", "config"),
    [
        ({"sequence_length": 64}, BERT),
        ({"sequence_length": 100_000}, T5),
        ({"sequence_length": 100_000}, VIT),
        ({"sequence_length": 100_000}, {"model_type": "mamba", "vocab_size": 9}),
        ({"image_size": 8}, VIT),
        ({"image_size": 640}, RESNET),
        ({}, WAV2VEC2),
        ({"task": SPEECH, "audio_seconds": 5, "sequence_length": 100_000}, WAV2VEC2),
        ({"task": SPEECH, "audio_seconds": 30, "sequence_length": 448}, WHISPER),
        ({"task": SPEECH}, WHISPER),
        ({"padding": 0.25}, BERT),
        ({"padding": "sampled", "sequence_length": 2}, BERT),
    ],
)
def test_what_fits_is_not_refused(axes: dict[str, Any], config: Mapping[str, Any]) -> None:
    assert refusal(cell(**axes), ANY_TASK, config) is None


@pytest.mark.parametrize(
    ("model_config", "tokens"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": None}, 512),
        ({"model_type": "t5"}, None),
        ({"model_type": "t5", "n_positions": 512}, None),  # relative positions: no limit
        ({}, None),
    ],
)
def test_the_longest_sequence_is_read_from_the_config(model_config: dict[str, Any], tokens: int | None) -> None:
    assert longest_sequence(model_config) == tokens


# --- generation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_config", "generation_config", "ids"),
    [
        ({"eos_token_id": 2}, {}, (2,)),
        ({"eos_token_id": 2}, {"eos_token_id": [5, 6]}, (5, 6)),
        ({"eos_token_id": 2}, {"eos_token_id": None}, (2,)),
        ({"eos_token_id": 0}, {}, (0,)),
        ({}, {}, ()),
    ],
)
def test_texts_end_as_the_generation_config_says_else_as_the_config_does(
    model_config: dict[str, Any], generation_config: dict[str, Any], ids: tuple[int, ...]
) -> None:
    assert eos_token_ids(model_config, generation_config) == ids
    refused = checkpoint_refusal(generation(stop_at_eos=True), model_config, (), generation_config)
    assert (refused is None) == bool(ids)


GENERATES = Backend("any", BACKEND.stack, BACKEND.runner, "", operations=("forward", "prefill", "decode", "generate"))
BART = {**T5, "model_type": "bart", "max_position_embeddings": 64, "architectures": ["BartForConditionalGeneration"]}


def generation(**axes: Any) -> Cell:
    plain = {"task": "text-generation", "operation": "generate", "sequence_length": 32, "new_tokens": 32}
    return cell(**{**plain, **axes})


@pytest.mark.parametrize(
    ("axes", "config", "said"),
    [
        (
            {"task": "fill-mask"},
            {},
            "operation generate: task fill-mask generates nothing here; it is for text-generation",
        ),
        ({"operation": "prefill", "task": "feature-extraction"}, {}, "task feature-extraction generates nothing"),
        ({"new_tokens": None}, {}, "operation generate: new_tokens is null"),
        ({"operation": "decode", "new_tokens": 1}, {}, "new_tokens 1: decode is timed from the second token on"),
        ({"operation": "decode", "num_beams": 4}, {}, "num_beams 4: operation decode searches no beams; generate does"),
        ({"operation": "prefill", "do_sample": True}, {}, "do_sample true: operation prefill draws no tokens"),
        ({"operation": "forward", "num_beams": 2}, {}, "num_beams 2: operation forward searches no beams"),
        (
            {"do_sample": True, "num_beams": 2},
            {},
            "num_beams 2 with do_sample: drawn beams can be held to no reference",
        ),
        ({"new_tokens": 33}, GPT2, "new_tokens 33 after sequence_length 32: the model has positions for 64 tokens"),
        (
            {"operation": "decode", "sequence_length": 63, "new_tokens": 2},
            GPT2,
            "new_tokens 2 after sequence_length 63",
        ),
        ({"new_tokens": 65, "task": "text2text-generation"}, BART, "new_tokens 65: the model has positions for 64"),
        ({"new_tokens": 65_537, "task": "text2text-generation"}, T5, "new_tokens 65537: 65536 at most are made here"),
        (
            {"operation": "decode", "stop_at_eos": True},
            {},
            "stop_at_eos true: operation decode looks for no end-of-text",
        ),
        (
            {"stop_at_eos": True, "do_sample": True},
            {},
            "stop_at_eos with do_sample: outputs are those of a greedy call",
        ),
        (
            {"stop_at_eos": True, "checkpoint": "random:gpt2", "model": "random:gpt2"},
            GPT2,
            "neither config.json nor generation_config.json of random:gpt2 names an eos_token_id",
        ),
    ],
)
def test_a_generation_that_cannot_be_is_refused_in_a_sentence(
    axes: dict[str, Any], config: Mapping[str, Any], said: str
) -> None:
    found = refusal(generation(**axes), GENERATES, config)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    ("axes", "config"),
    [
        ({}, GPT2),
        ({"new_tokens": 1}, GPT2),
        ({"num_beams": 4}, GPT2),
        ({"do_sample": True}, GPT2),
        ({"operation": "prefill", "new_tokens": None, "sequence_length": 64}, GPT2),
        ({"new_tokens": 64, "sequence_length": 64, "task": "text2text-generation"}, BART),
        ({"new_tokens": 10_000, "task": "text2text-generation"}, T5),
    ],
)
def test_a_generation_that_fits_is_not_refused(axes: dict[str, Any], config: Mapping[str, Any]) -> None:
    assert refusal(generation(**axes), GENERATES, config) is None


# --- applications ---------------------------------------------------------------------------------------------------

APPLIED = Backend("any", BACKEND.stack, BACKEND.runner, "", operations=("forward", "application"))
READ = {"config.json", "model.safetensors"}


def application(**axes: Any) -> Cell:
    return cell(operation="application", **axes)


@pytest.mark.parametrize(
    ("axes", "config", "said"),
    [
        ({"task": "text2text-generation"}, T5, "task text2text-generation takes more than a forward pass"),
        ({"image_size": 8, "task": "image-classification"}, VIT, "image_size 8: of an application the checkpoint's"),
        ({"checkpoint": "random:bert"}, BERT, "application latency needs a tokenizer: m has none"),
        ({"checkpoint": "random:vit"}, VIT, "application latency needs an image processor: m has none"),
        ({"checkpoint": "random:wav2vec2", "task": SPEECH}, WAV2VEC2, "application latency needs a feature extractor"),
        (
            {"task": SPEECH},
            WHISPER,
            "a model of type whisper writes a token at a time, and one forward pass is no text",
        ),
    ],
)
def test_what_cannot_be_an_application_is_refused(axes: dict[str, Any], config: Mapping[str, Any], said: str) -> None:
    found = refusal(application(**axes), APPLIED, config)
    assert found is not None
    assert said in found


@pytest.mark.parametrize("task", [task for task in TASKS if task != "text2text-generation"])
def test_every_task_of_one_forward_pass_can_be_an_application(task: str) -> None:
    assert refusal(application(task=task), APPLIED, {}) is None


@pytest.mark.parametrize(
    ("config", "file", "said"),
    [
        (BERT, "tokenizer.json", "application latency needs a tokenizer: m has none (there is no tokenizer.json)"),
        (
            VIT,
            "preprocessor_config.json",
            "needs an image processor: m has none (there is no preprocessor_config.json)",
        ),
    ],
)
def test_an_application_needs_what_reads_its_inputs(config: Mapping[str, Any], file: str, said: str) -> None:
    found = checkpoint_refusal(application(), config, READ)
    assert found is not None
    assert said in found
    assert checkpoint_refusal(application(), config, READ | {file}) is None
    assert checkpoint_refusal(cell(), config, READ) is None  # the forward pass alone reads nothing


def test_speech_needs_what_hears_and_what_spells() -> None:
    hears = READ | {"preprocessor_config.json"}
    said = checkpoint_refusal(application(task=SPEECH), WAV2VEC2, hears)
    assert said == "application latency needs a vocabulary: m has none (there is no vocab.json)"
    assert checkpoint_refusal(application(task=SPEECH), WAV2VEC2, hears | {"vocab.json"}) is None
    assert checkpoint_refusal(application(), WAV2VEC2, hears) is None  # features are no text
