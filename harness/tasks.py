"""The tasks, by the Hub's names: what a model is given for each, which head it needs, and which of its outputs are compared.

Host and worker both import this module, so it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


TASKS: Mapping[str, Task] = {
    "feature-extraction": Task(Kind.ANY, ("last_hidden_state",), is_per_token=True),
    "text-classification": Task(Kind.TEXT, ("logits",), ("ForSequenceClassification",)),
    "token-classification": Task(Kind.TEXT, ("logits",), ("ForTokenClassification",), is_per_token=True),
    # ForPreTraining: BERT's has the head, ELECTRA's has another; where it is the other, loading finds its weights missing.
    "fill-mask": Task(Kind.TEXT, ("logits",), ("ForMaskedLM", "WithLMHead", "ForPreTraining"), is_per_token=True),
    "question-answering": Task(Kind.PAIR, ("start_logits", "end_logits"), ("ForQuestionAnswering",), is_per_token=True),
    "text-generation": Task(Kind.TEXT, ("logits",), ("ForCausalLM", "LMHeadModel"), is_per_token=True),
    "text2text-generation": Task(
        Kind.TEXT, ("logits",), ("ForConditionalGeneration", "MTModel", "WithLMHeadModel"), has_decoder_inputs=True
    ),
    "image-classification": Task(Kind.IMAGE, ("logits",), ("ForImageClassification",)),
}

ENCODER_DECODER_TASKS = ("feature-extraction", "text2text-generation")
"""What encoder-decoders are run for: features are their encoder's."""

OPERATIONS = ("forward",)
"""What of a model is timed."""
