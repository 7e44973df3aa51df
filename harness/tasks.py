"""The tasks, by the Hub's names: what a model is given for each, which head it needs, and which of its outputs are compared.

Host and worker both import this module, so it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a task's inputs are made of."""

    ANY = "text, images or audio"  # whichever the model takes
    TEXT = "text"
    PAIR = "pairs of texts"
    IMAGE = "images"
    AUDIO = "audio"


@dataclass(frozen=True)
class Task:
    """One task."""

    inputs: Kind
    outputs: tuple[str, ...]
    """Those compared, by Transformers' names. A model may compute others: not every backend has them."""
    heads: tuple[str, ...] = ()
    """What the names of Transformers' classes that have the head contain. Empty: any model will do."""
    is_per_token: bool = False
    """Of text, outputs have a row for each token given: those of padding are compared by nobody."""
    has_decoder_inputs: bool = False
    """An encoder-decoder is given what its decoder is to continue, too, of `sequence_length` tokens."""
    auto_class: str = field(kw_only=True)
    """Transformers' class that loads a model with the head."""
    encoder_decoder: Task | None = field(default=None, kw_only=True)
    """What the task is of an encoder-decoder, where that is another head."""


TASKS: Mapping[str, Task] = {
    "feature-extraction": Task(Kind.ANY, ("last_hidden_state",), is_per_token=True, auto_class="AutoModel"),
    "text-classification": Task(
        Kind.TEXT, ("logits",), ("ForSequenceClassification",), auto_class="AutoModelForSequenceClassification"
    ),
    "token-classification": Task(
        Kind.TEXT,
        ("logits",),
        ("ForTokenClassification",),
        is_per_token=True,
        auto_class="AutoModelForTokenClassification",
    ),
    # ForPreTraining: BERT's has the head, ELECTRA's has another; where it is the other, loading finds its weights missing.
    "fill-mask": Task(
        Kind.TEXT,
        ("logits",),
        ("ForMaskedLM", "WithLMHead", "ForPreTraining"),
        is_per_token=True,
        auto_class="AutoModelForMaskedLM",
    ),
    "question-answering": Task(
        Kind.PAIR,
        ("start_logits", "end_logits"),
        ("ForQuestionAnswering",),
        is_per_token=True,
        auto_class="AutoModelForQuestionAnswering",
    ),
    "text-generation": Task(
        Kind.TEXT, ("logits",), ("ForCausalLM", "LMHeadModel"), is_per_token=True, auto_class="AutoModelForCausalLM"
    ),
    "text2text-generation": Task(
        Kind.TEXT,
        ("logits",),
        ("ForConditionalGeneration", "MTModel", "WithLMHeadModel"),
        has_decoder_inputs=True,
        auto_class="AutoModelForSeq2SeqLM",
    ),
    "image-classification": Task(
        Kind.IMAGE, ("logits",), ("ForImageClassification",), auto_class="AutoModelForImageClassification"
    ),
    # Two ways to write down what was said: a row of logits for each stretch of audio (CTC), or a decoder that listens.
    "automatic-speech-recognition": Task(
        Kind.AUDIO,
        ("logits",),
        ("ForCTC",),
        auto_class="AutoModelForCTC",
        encoder_decoder=Task(
            Kind.AUDIO,
            ("logits",),
            ("ForConditionalGeneration",),
            has_decoder_inputs=True,
            auto_class="AutoModelForSpeechSeq2Seq",
        ),
    ),
}


def task_for(name: str, *, is_encoder_decoder: bool) -> Task:
    """A task as it is of a model."""
    task = TASKS[name]
    return task.encoder_decoder if is_encoder_decoder and task.encoder_decoder else task


AUTO_CLASSES = tuple(
    dict.fromkeys(task_for(name, is_encoder_decoder=one).auto_class for name in TASKS for one in (False, True))
)
"""Transformers' classes that load models for the tasks."""

AUDIO_HZ = 16_000
"""Samples of a waveform in a second: what models of speech are trained with."""

AUDIO_FRAMES_HZ = 100
"""Columns of a spectrogram in a second, as Whisper's feature extractor makes them."""

ENCODER_TASKS = (
    "feature-extraction",
    "text-classification",
    "token-classification",
    "fill-mask",
    "question-answering",
    "image-classification",
)
"""What encoders of text and of images are run for."""

ENCODER_DECODER_TASKS = ("feature-extraction", "text2text-generation", "automatic-speech-recognition")
"""What encoder-decoders are run for: features are their encoder's."""

OPERATIONS = ("forward", "prefill", "decode", "generate", "application")
"""What of a model is timed.

forward      one pass over the inputs
prefill      a prompt to the logits of its last position and a filled cache
decode       one token more, by the cache; the prompt is read before the clock starts
generate     the library's own generate(), from a prompt to the last of `new_tokens` tokens
application  raw text, images or audio to Python objects, around a forward pass
"""

GENERATION = ("prefill", "decode", "generate")
"""Operations on a prompt that is to be continued: padding stands on the left, so that the next token follows a real one."""

TOKEN_MAKERS = ("decode", "generate")
"""Operations that choose `new_tokens` tokens."""

MARKED_OPERATIONS = ("generate", "application")
"""Operations whose calls have parts worth stamping: they get marked rounds beside the others."""

GENERATION_TASKS = ("text-generation", "text2text-generation")
"""Tasks that the operations of generation are for."""

DEFAULT_NEW_TOKENS = 32
"""Of decode and generate, where a matrix names no number."""

APPLICATION_TASKS = tuple(name for name, task in TASKS.items() if not task.has_decoder_inputs)
"""Tasks of which one forward pass makes what a program hands on."""

APPLICATION_PARTS = ("tokenize", "transfer", "model", "postprocess")
"""What a call of an application marks, each when it is over; "tokenize" is what reads images or audio, too."""
