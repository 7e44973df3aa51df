"""What the locked Transformers has Flax classes for, and where these differ from PyTorch's, as data: the host need not ask.

A test in the stack compares the model types with Transformers' own: refreshing the lock shows whether they still hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODEL_TYPES = {
    "feature-extraction": _words(
        """
        albert bart beit bert big_bird blenderbot blenderbot-small bloom clip dinov2 distilbert
        electra gemma gpt-sw3 gpt2 gpt_neo gptj llama longt5 marian mbart mistral mt5 opt pegasus
        regnet resnet roberta roberta-prelayernorm roformer t5 vision-text-dual-encoder vit wav2vec2
        whisper xglm xlm-roberta
        """
    ),
    "text-classification": _words(
        """
        albert bart bert big_bird distilbert electra mbart roberta roberta-prelayernorm roformer
        xlm-roberta
        """
    ),
    "token-classification": _words(
        """
        albert bert big_bird distilbert electra roberta roberta-prelayernorm roformer xlm-roberta
        """
    ),
    "fill-mask": _words(
        """
        albert bart bert big_bird distilbert electra mbart roberta roberta-prelayernorm roformer
        xlm-roberta
        """
    ),
    "question-answering": _words(
        """
        albert bart bert big_bird distilbert electra mbart roberta roberta-prelayernorm roformer
        xlm-roberta
        """
    ),
    "text-generation": _words(
        """
        bart bert big_bird bloom electra gemma gpt-sw3 gpt2 gpt_neo gptj llama mistral opt roberta
        roberta-prelayernorm xglm xlm-roberta
        """
    ),
    "text2text-generation": _words(
        """
        bart blenderbot blenderbot-small encoder-decoder longt5 marian mbart mt5 pegasus t5
        """
    ),
    "image-classification": _words(
        """
        beit dinov2 regnet resnet vit
        """
    ),
    "automatic-speech-recognition": _words(
        """
        speech-encoder-decoder wav2vec2 whisper
        """
    ),
}
"""By task: model types (of config.json) that its Flax auto class, or `NAMED_CLASSES`, has a class for."""

ROTARY = ("gemma", "llama", "mistral")
"""Model types whose Flax code has one way to make rotary positions: no scaling of any kind."""

HEADS_SHARE_WIDTH = ("llama", "mistral")
"""Model types whose Flax code divides hidden_size among the heads, whatever `head_dim` says."""

FIXED_SETTINGS: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    "big_bird": {"attention_type": ("block_sparse", "original_full")},  # sparse attention draws random blocks
    "gpt-sw3": {"scale_attn_by_inverse_layer_idx": (False, False), "scale_attn_weights": (True, True)},
    "gpt2": {"scale_attn_by_inverse_layer_idx": (False, False), "scale_attn_weights": (True, True)},
    "llama": {"mlp_bias": (False, False)},
    "wav2vec2": {"do_stable_layer_norm": (False, True), "feat_extract_norm": ("group", "layer")},
}
"""Model type -> key of config.json -> (Transformers' default, the only value that the Flax code computes or that compares)."""

CACHE_FAULTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("bert", "big_bird", "electra", "roberta", "roberta-prelayernorm", "xlm-roberta"),
        "keeps keys and values only where an encoder stands beside it",
    ),
    "bart": "computes other logits from the keys and values it has kept, where no encoder stands beside it",
}
"""Model types that have a Flax class for text-generation but go wrong when a prompt is continued -> what its code does."""

ENCODERS = {"mt5": "FlaxMT5EncoderModel", "t5": "FlaxT5EncoderModel"}
"""Encoder-decoders whose encoder has a Flax class of its own: that extracts features."""

CTC = {"wav2vec2": "FlaxWav2Vec2ForCTC"}
"""Models that label stretches of audio: Flax has no auto class for them."""

NAMED_CLASSES: Mapping[str, Mapping[str, str]] = {"feature-extraction": ENCODERS, "automatic-speech-recognition": CTC}
"""Task -> model type -> the Flax class that is asked for by its name."""


def differences(model_config: Mapping[str, Any]) -> Iterator[str]:
    """What a config.json asks for and the Flax class of its model type would ignore without an error, one reason each."""
    model_type = model_config.get("model_type", "")
    for name, (default, fixed) in FIXED_SETTINGS.get(model_type, {}).items():
        if (seen := model_config.get(name, default)) != fixed:
            yield f"{name} {seen}: the Flax code of {model_type} runs {fixed} only"
    if model_type in ROTARY and (kind := _rotary_kind(model_config)) != "default":
        yield f"rope_type {kind}: the Flax code of {model_type} does not scale rotary positions"
    if model_type in HEADS_SHARE_WIDTH and not _heads_share_width(model_config):
        yield f"head_dim {model_config['head_dim']}: the Flax code of {model_type} runs hidden_size / num_attention_heads"


def _rotary_kind(model_config: Mapping[str, Any]) -> str:
    """As Transformers 4 names it (`rope_scaling`, once with `type`), or 5 (`rope_parameters`)."""
    settings = model_config.get("rope_scaling") or model_config.get("rope_parameters") or {}
    return str(settings.get("rope_type", settings.get("type", "default")))


def _heads_share_width(model_config: Mapping[str, Any]) -> bool:
    head_dim = model_config.get("head_dim")
    return head_dim is None or head_dim * model_config["num_attention_heads"] == model_config["hidden_size"]
