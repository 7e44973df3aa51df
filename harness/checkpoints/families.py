"""The families that `random:FAMILY?options` can make: their options, defaults and limits, as data.

An option has the name that Transformers gives it in config.json. A family is one entry of `FAMILIES`; everything else (the
identity, the config, what the maker is told) follows from it. Defaults are small: a checkpoint of under a megabyte, made in
the blink of an eye, that still goes through every part of its architecture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Value = str | int | float | bool | None | tuple[int, ...]
"""What an option holds: as in config.json, lists as tuples."""


class FamilyOption(Protocol):
    """One option of a family: its default, and how it is read from and written into a source."""

    @property
    def default(self) -> Value: ...

    @property
    def allowed(self) -> str:
        """What may be written, to complete "must be ..."."""

    def read(self, text: str) -> Value:
        """The value of a text. Raises ValueError where it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    default: int | None
    low: int
    high: int
    nullable: bool = False

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}{' or null' if self.nullable else ''}"

    def read(self, text: str) -> int | None:
        if self.nullable and text == "null":
            return None
        return _whole(text, self.low, self.high)


@dataclass(frozen=True)
class Real:
    """A number above zero."""

    default: float | None  # None: chosen from the other values
    high: float

    @property
    def allowed(self) -> str:
        return f"a number above 0 and at most {show(self.high)}"

    def read(self, text: str) -> float:
        value = float(text)
        if not 0 < value <= self.high:  # NaN fails too
            raise ValueError(text)
        return value


@dataclass(frozen=True)
class Flag:
    """True or false."""

    default: bool
    allowed: str = "true or false"

    def read(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"


@dataclass(frozen=True)
class Word:
    """One of a few words, the first being the default."""

    choices: tuple[str, ...]

    @property
    def default(self) -> str:
        return self.choices[0]

    @property
    def allowed(self) -> str:
        return " or ".join(self.choices)

    def read(self, text: str) -> str:
        if text not in self.choices:
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class Wholes:
    """One to eight whole numbers, separated by commas."""

    default: tuple[int, ...]
    low: int
    high: int

    @property
    def allowed(self) -> str:
        return f"one to eight whole numbers from {self.low} to {self.high}, separated by commas"

    def read(self, text: str) -> tuple[int, ...]:
        parts = text.split(",")
        if len(parts) > 8:
            raise ValueError(text)
        return tuple(_whole(part, self.low, self.high) for part in parts)


@dataclass(frozen=True)
class Family:
    """One architecture family.

    `classes` are the Transformers classes whose weights, made one after the other with one seed, are stored in one file under
    the prefix given; a name that is there already is kept. So the base model (with its pooler) and every head that a task may
    ask for find their weights in the same checkpoint, and no head is ever left to chance at load. config.json names the classes
    that have a head, `architecture` first: so a task whose head is not there is refused by it.
    """

    classes: tuple[tuple[str, str], ...]  # (class, prefix of its names); with a prefix it is a model without a head
    architecture: str  # the class that config.json names first
    options: Mapping[str, FamilyOption]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # config keys that are no options
    multiples: tuple[tuple[str, str, int], ...] = ()  # (whole, part, n): whole must be a multiple of n times part
    equal_lengths: tuple[str, ...] = ()  # options that must have as many numbers as each other
    width: str | None = None  # the option that `spread` is chosen from, where that is not written
    spread: str = "initializer_range"  # the option that is the standard deviation of weights

    @property
    def architectures(self) -> list[str]:
        """What config.json says the checkpoint is of."""
        with_heads = (name for name, prefix in self.classes if not prefix)
        return list(dict.fromkeys((self.architecture, *with_heads)))

    def complete(self, written: Mapping[str, Value]) -> dict[str, Value]:
        """A value for every option: as written, else its default."""
        defaults: dict[str, Value] = {name: option.default for name, option in self.options.items()}
        values = {**defaults, **written}
        if self.width and self.spread not in written:
            values[self.spread] = round(_LOGIT_SPREAD / math.sqrt(_number(values[self.width])), 4)
        return values

    def objection(self, values: Mapping[str, Value]) -> str | None:
        """Why these values cannot go together; None where they can."""
        for whole, part, times in self.multiples:
            step = times * _number(values[part])
            if _number(values[whole]) % step:
                factor = f"{times} x " if times > 1 else ""
                return f"{whole}={values[whole]} must be a multiple of {factor}{part}={values[part]}"
        if len({len(_numbers(values[name])) for name in self.equal_lengths}) > 1:
            return f"{' and '.join(self.equal_lengths)} must have as many numbers as each other"
        return None


def show(value: Value) -> str:
    """The one way in which a value is written into an identity: 50.0 is 50, lists have commas, none is null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and math.fabs(value) < 1e15 else repr(value)
    return "null" if value is None else str(value)


def _whole(text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text, re.ASCII) or not low <= int(text) <= high:
        raise ValueError(text)
    return int(text)


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _numbers(value: Value) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return value


# --- the table ------------------------------------------------------------------------------------------------------

_SEED = Whole(0, 0, 2**63 - 1)
"""Of the weights; an option of every family, and no key of config.json."""

_LOGIT_SPREAD = 1.6
"""Standard deviation that logits get: a norm's output (deviation 1) times `width` weights of deviation 1.6/sqrt(width).

Measured at 64 and 768 wide: float32 stays within 1e-5 of float64 and greedy decoding does not repeat itself. A fixed deviation
cannot do both: 0.2 is right at 64, and at 768 attention saturates and float32 is off by 6e-3.
"""

_WIDTH = Whole(64, 2, 65536)
_INNER = Whole(256, 1, 262144)
_LAYERS = Whole(2, 1, 256)
_HEADS = Whole(4, 1, 1024)
_VOCABULARY = Whole(1024, 32, 1_000_000)
_POSITIONS = Whole(512, 8, 1_048_576)
_INITIALIZER_RANGE = Real(None, 2)
_ACTIVATION = Word(("gelu", "gelu_new", "relu", "silu"))

_LAYERED: Mapping[str, FamilyOption] = {
    "seed": _SEED,
    "hidden_size": _WIDTH,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
}
"""As most configs call them."""

_ROTARY: Mapping[str, FamilyOption] = {
    **_LAYERED,
    "num_key_value_heads": Whole(2, 1, 1024),
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": _POSITIONS,
    "rope_theta": Real(10000.0, 1e9),
    "tie_word_embeddings": Flag(False),
    "initializer_range": _INITIALIZER_RANGE,
}
_ROTARY_MULTIPLES = (
    ("hidden_size", "num_attention_heads", 2),  # a head is turned in pairs of dimensions
    ("num_attention_heads", "num_key_value_heads", 1),
)
_ROTARY_FIXED = {"hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

_BERT: Mapping[str, FamilyOption] = {
    **_LAYERED,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": _POSITIONS,
    "type_vocab_size": Whole(2, 1, 16),
    "hidden_act": _ACTIVATION,
    "initializer_range": _INITIALIZER_RANGE,
}

FAMILIES: Mapping[str, Family] = {
    "bert": Family(
        classes=(
            ("BertModel", "bert."),
            ("BertForPreTraining", ""),
            ("BertForSequenceClassification", ""),
            ("BertForTokenClassification", ""),
            ("BertForQuestionAnswering", ""),
        ),
        architecture="BertForMaskedLM",
        options=_BERT,
        fixed={"pad_token_id": 0},
        multiples=(("hidden_size", "num_attention_heads", 1),),
        width="hidden_size",
    ),
    "distilbert": Family(
        classes=(
            ("DistilBertForMaskedLM", ""),
            ("DistilBertForSequenceClassification", ""),
            ("DistilBertForTokenClassification", ""),
            ("DistilBertForQuestionAnswering", ""),
        ),
        architecture="DistilBertForMaskedLM",
        options={
            "seed": _SEED,
            "dim": _WIDTH,
            "hidden_dim": _INNER,
            "n_layers": _LAYERS,
            "n_heads": _HEADS,
            "vocab_size": _VOCABULARY,
            "max_position_embeddings": _POSITIONS,
            "activation": Word(("gelu", "relu")),
            "initializer_range": _INITIALIZER_RANGE,
        },
        fixed={"pad_token_id": 0},
        multiples=(("dim", "n_heads", 1),),
        width="dim",
    ),
    "gpt2": Family(
        classes=(
            ("GPT2LMHeadModel", ""),
            ("GPT2ForSequenceClassification", ""),
            ("GPT2ForTokenClassification", ""),
            ("GPT2ForQuestionAnswering", ""),
        ),
        architecture="GPT2LMHeadModel",
        options={
            "seed": _SEED,
            "n_embd": _WIDTH,
            "n_inner": Whole(None, 1, 262144, nullable=True),  # null: four times n_embd
            "n_layer": _LAYERS,
            "n_head": _HEADS,
            "vocab_size": _VOCABULARY,
            "n_positions": _POSITIONS,
            "activation_function": Word(("gelu_new", "gelu", "relu", "silu")),
            "initializer_range": _INITIALIZER_RANGE,
        },
        fixed={"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
        multiples=(("n_embd", "n_head", 1),),
        width="n_embd",
    ),
    "llama": Family(
        classes=(
            ("LlamaForCausalLM", ""),
            ("LlamaForSequenceClassification", ""),
            ("LlamaForTokenClassification", ""),
        ),
        architecture="LlamaForCausalLM",
        options=_ROTARY,
        fixed=_ROTARY_FIXED,
        multiples=_ROTARY_MULTIPLES,
        width="hidden_size",
    ),
    "mistral": Family(
        classes=(
            ("MistralForCausalLM", ""),
            ("MistralForSequenceClassification", ""),
            ("MistralForTokenClassification", ""),
        ),
        architecture="MistralForCausalLM",
        options={**_ROTARY, "sliding_window": Whole(4096, 1, 1_048_576, nullable=True)},
        fixed=_ROTARY_FIXED,
        multiples=_ROTARY_MULTIPLES,
        width="hidden_size",
    ),
    "qwen2": Family(
        classes=(
            ("Qwen2ForCausalLM", ""),
            ("Qwen2ForSequenceClassification", ""),
            ("Qwen2ForTokenClassification", ""),
        ),
        architecture="Qwen2ForCausalLM",
        options=_ROTARY,
        fixed={**_ROTARY_FIXED, "use_sliding_window": False},
        multiples=_ROTARY_MULTIPLES,
        width="hidden_size",
    ),
    "resnet": Family(
        classes=(("ResNetForImageClassification", ""),),
        architecture="ResNetForImageClassification",
        options={
            "seed": _SEED,
            "embedding_size": Whole(16, 1, 4096),
            "hidden_sizes": Wholes((16, 32), 4, 65536),
            "depths": Wholes((1, 1), 1, 256),
            "layer_type": Word(("bottleneck", "basic")),
            "num_channels": Whole(3, 1, 64),
            "hidden_act": Word(("relu", "gelu", "silu")),
        },
        equal_lengths=("hidden_sizes", "depths"),
    ),
    "roberta": Family(
        classes=(
            ("RobertaModel", "roberta."),
            ("RobertaForMaskedLM", ""),
            ("RobertaForSequenceClassification", ""),
            ("RobertaForTokenClassification", ""),
            ("RobertaForQuestionAnswering", ""),
        ),
        architecture="RobertaForMaskedLM",
        options={**_BERT, "max_position_embeddings": Whole(514, 8, 1_048_576), "type_vocab_size": Whole(1, 1, 16)},
        fixed={"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
        multiples=(("hidden_size", "num_attention_heads", 1),),
        width="hidden_size",
    ),
    "t5": Family(
        classes=(("T5ForConditionalGeneration", ""),),
        architecture="T5ForConditionalGeneration",
        options={
            "seed": _SEED,
            "d_model": _WIDTH,
            "d_kv": Whole(16, 1, 4096),
            "d_ff": _INNER,
            "num_layers": _LAYERS,
            "num_decoder_layers": _LAYERS,
            "num_heads": _HEADS,
            "vocab_size": _VOCABULARY,
            "relative_attention_num_buckets": Whole(32, 4, 1024),
            "feed_forward_proj": Word(("relu", "gated-gelu")),
            "initializer_factor": Real(1.0, 100),
        },
        fixed={"is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
    ),
    "vit": Family(
        classes=(("ViTModel", "vit."), ("ViTForImageClassification", "")),
        architecture="ViTForImageClassification",
        options={
            **_LAYERED,
            "image_size": Whole(64, 1, 4096),  # pixels, height and width
            "patch_size": Whole(16, 1, 1024),  # pixels
            "num_channels": Whole(3, 1, 64),
            "hidden_act": _ACTIVATION,
            "initializer_range": _INITIALIZER_RANGE,
        },
        multiples=(("hidden_size", "num_attention_heads", 1), ("image_size", "patch_size", 1)),
        width="hidden_size",
    ),
    "wav2vec2": Family(
        classes=(("Wav2Vec2ForCTC", ""),),
        architecture="Wav2Vec2ForCTC",
        options={
            **_LAYERED,
            "conv_dim": Wholes((32,) * 7, 1, 65536),
            "conv_kernel": Wholes((10, 3, 3, 3, 3, 2, 2), 1, 1024),  # samples, then places of the layer before
            "conv_stride": Wholes((5, 2, 2, 2, 2, 2, 2), 1, 1024),  # 320 samples, 20 ms, between two places of the last
            "conv_bias": Flag(True),
            # The norms of the larger checkpoints, which every backend runs; the base model's are "group" and false.
            "feat_extract_norm": Word(("layer", "group")),
            "do_stable_layer_norm": Flag(True),
            "num_conv_pos_embeddings": Whole(16, 1, 4096),
            "num_conv_pos_embedding_groups": Whole(4, 1, 1024),
            "vocab_size": Whole(32, 4, 1_000_000),
            "hidden_act": Word(("gelu", "gelu_new", "relu")),
            "initializer_range": _INITIALIZER_RANGE,
        },
        fixed={"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        multiples=(
            ("hidden_size", "num_attention_heads", 1),
            ("hidden_size", "num_conv_pos_embedding_groups", 1),
        ),
        equal_lengths=("conv_dim", "conv_kernel", "conv_stride"),
        width="hidden_size",
    ),
    "whisper": Family(
        classes=(("WhisperForConditionalGeneration", ""),),
        architecture="WhisperForConditionalGeneration",
        options={
            "seed": _SEED,
            "d_model": _WIDTH,
            "encoder_ffn_dim": _INNER,
            "decoder_ffn_dim": _INNER,
            "encoder_layers": _LAYERS,
            "decoder_layers": _LAYERS,
            "encoder_attention_heads": _HEADS,
            "decoder_attention_heads": _HEADS,
            "vocab_size": _VOCABULARY,
            "num_mel_bins": Whole(80, 1, 1024),
            "max_source_positions": Whole(100, 1, 65536),  # 20 ms each: 50 make a second, the one length it takes
            "max_target_positions": Whole(448, 8, 65536),  # tokens
            "activation_function": Word(("gelu", "relu")),
            "init_std": _INITIALIZER_RANGE,
        },
        fixed={
            "is_encoder_decoder": True,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 3,
            "begin_suppress_tokens": None,  # its own lie beyond a small vocabulary
        },
        multiples=(("d_model", "encoder_attention_heads", 1), ("d_model", "decoder_attention_heads", 1)),
        width="d_model",
        spread="init_std",
    ),
}
