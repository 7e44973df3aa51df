"""The tasks, by the Hub's names: what a model is given for each, which head it needs, and which of its outputs are compared.

Host and worker both import this module, so it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a task's inputs are made of."""

    ANY = "text or images"  # whichever the model takes
    TEXT = "text"
    PAIR = "pairs of texts"
    IMAGE = "images"


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
    """An encoder-decoder is given what its decoder is to continue, too, of as many tokens as its encoder."""
    auto_class: str = field(kw_only=True)
    """Transformers' class that loads a model with the head."""


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
}

ENCODER_DECODER_TASKS = ("feature-extraction", "text2text-generation")
"""What encoder-decoders are run for: features are their encoder's."""

OPERATIONS = ("forward", "prefill", "decode", "generate", "application")
"""What of a model is timed.

forward      one pass over the inputs
prefill      a prompt to the logits of its last position and a filled cache
decode       one token more, by the cache; the prompt is read before the clock starts
generate     the library's own generate(), from a prompt to the last of `new_tokens` tokens
application  raw text or images to Python objects, around a forward pass
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
"""What a call of an application marks, each when it is over; "tokenize" is an image processor's work too."""
