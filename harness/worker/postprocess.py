"""What a model's outputs mean: Python objects of them, one for each row of a batch, as a program would hand them on.

| task | object of a row |
|---|---|
| feature-extraction | the mean over the row's tokens (of images and audio, over all places), of length 1, as a list of numbers |
| text-classification, image-classification | {"label", "score"}: the likeliest class |
| token-classification | the likeliest label of each token, padding left out |
| fill-mask | the five likeliest tokens for the masked one: {"token", "score"} each |
| question-answering | {"answer", "score"}: the likeliest span of the second text, of at most fifteen tokens |
| text-generation | the text of the likeliest next token |
| automatic-speech-recognition | the text that the likeliest tokens of all places make (greedy CTC) |

Scores are probabilities. NumPy alone, so that every backend is followed by the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.worker.api import Arrays

Floats = npt.NDArray[np.floating[Any]]

_LIKELIEST = 5  # tokens for a masked one
_LONGEST_ANSWER = 15  # tokens


@dataclass(frozen=True)
class Batch:
    """What was made of one call's raw inputs."""

    arrays: Arrays  # what the model is given
    texts: Sequence[str] = ()  # that answers are cut out of: of pairs the second ones
    offsets: npt.NDArray[np.int64] | None = None  # (batch, tokens, 2): where in its text each token begins and ends
    in_text: npt.NDArray[np.bool_] | None = None  # (batch, tokens): the tokens of those texts


@dataclass(frozen=True)
class Meaning:
    """What a checkpoint calls its classes and tokens."""

    labels: Mapping[int, str]  # class -> name, as config.json has them; {} where it has none
    text_of: Callable[[int], str]  # of a token
    mask_id: int | None = None  # the token that stands for one to be filled in
    spell: Callable[[Sequence[int]], str] = (
        str  # what a token for each place of audio says: repeats and blanks taken out
    )

    def label(self, index: int) -> str:
        """As Transformers calls a class without a name: `LABEL_1`."""
        return self.labels.get(index, f"LABEL_{index}")


Postprocess = Callable[[Arrays, Batch, Meaning], list[Any]]
"""From a model's outputs (float32, by Transformers' names) to one object for each row."""


def embeddings(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[list[float]]:
    """Mean-pooled and normalised."""
    del meaning
    hidden, mask = outputs["last_hidden_state"], batch.arrays.get("attention_mask")
    pooled = _mean_of_places(hidden) if mask is None else _mean_of_tokens(hidden, mask)
    lengths = np.linalg.norm(pooled, axis=-1, keepdims=True)
    return (pooled / np.maximum(lengths, np.finfo(np.float32).tiny)).tolist()  # type: ignore[no-any-return]


def classes(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[dict[str, Any]]:
    """The likeliest class of each row."""
    del batch
    probabilities = _softmax(outputs["logits"])
    return [{"label": meaning.label(best), "score": float(row[best])} for row, best in _with_best(probabilities)]


def token_labels(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[list[str]]:
    """The likeliest label of each token that is no padding."""
    best, is_token = outputs["logits"].argmax(-1), batch.arrays["attention_mask"].astype(bool)
    return [[meaning.label(int(index)) for index in row[mask]] for row, mask in zip(best, is_token, strict=True)]


def filled_masks(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[list[dict[str, Any]]]:
    """The likeliest tokens for the first masked one of each row."""
    places = (batch.arrays["input_ids"] == meaning.mask_id).argmax(-1)
    probabilities = _softmax(_at(outputs["logits"], places))
    return [_likeliest(row, meaning) for row in probabilities]


def answers(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[dict[str, Any]]:
    """The likeliest span of each row's text."""
    del meaning
    assert batch.offsets is not None
    assert batch.in_text is not None
    starts, ends = (
        _softmax(np.where(batch.in_text, outputs[name], -np.inf)) for name in ("start_logits", "end_logits")
    )
    rows = zip(batch.texts, batch.offsets, starts, ends, strict=True)
    return [_answer(*row) for row in rows]


def next_tokens(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[str]:
    """The text of what most likely follows each row's last token."""
    mask = batch.arrays["attention_mask"]
    last = mask.shape[1] - 1 - mask[:, ::-1].argmax(-1)
    return [meaning.text_of(int(token)) for token in _at(outputs["logits"], last).argmax(-1)]


def transcripts(outputs: Arrays, batch: Batch, meaning: Meaning) -> list[str]:
    """What is said in each row, by the likeliest token of each place."""
    del batch
    return [meaning.spell(row) for row in outputs["logits"].argmax(-1).tolist()]


POSTPROCESS: Mapping[str, Postprocess] = {
    "feature-extraction": embeddings,
    "text-classification": classes,
    "token-classification": token_labels,
    "fill-mask": filled_masks,
    "question-answering": answers,
    "text-generation": next_tokens,
    "image-classification": classes,
    "automatic-speech-recognition": transcripts,
}
"""By task: those that application latency can be measured of, as `harness.tasks.APPLICATION_TASKS` has them."""


def _softmax(logits: Floats) -> Floats:
    """Over the last axis. Of -inf it is 0."""
    powers: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def _mean_of_places(hidden: Floats) -> Floats:
    """Of (batch, places, features), as a ViT has them, or (batch, features, height, width), as convolutions do."""
    axes = (2, 3) if hidden.ndim == 4 else 1
    return hidden.mean(axis=axes)  # type: ignore[no-any-return]


def _mean_of_tokens(hidden: Floats, mask: npt.NDArray[Any]) -> Floats:
    weights = mask[..., None].astype(hidden.dtype)
    return (hidden * weights).sum(axis=1) / weights.sum(axis=1)  # type: ignore[no-any-return]


def _with_best(probabilities: Floats) -> zip[tuple[Floats, int]]:
    """Each row with the place of its largest number."""
    return zip(probabilities, probabilities.argmax(-1).tolist(), strict=True)


def _at(logits: Floats, places: npt.NDArray[np.int64]) -> Floats:
    """Of (batch, tokens, ...), each row's at its place."""
    return logits[np.arange(len(logits)), places]


def _likeliest(probabilities: Floats, meaning: Meaning) -> list[dict[str, Any]]:
    best = np.argsort(-probabilities, kind="stable")[:_LIKELIEST].tolist()
    return [{"token": meaning.text_of(token), "score": float(probabilities[token])} for token in best]


def _answer(text: str, offsets: npt.NDArray[np.int64], starts: Floats, ends: Floats) -> dict[str, Any]:
    spans = np.outer(starts, ends)
    allowed = np.triu(spans) - np.triu(spans, _LONGEST_ANSWER)
    start, end = divmod(int(allowed.argmax()), allowed.shape[1])
    return {"answer": text[offsets[start, 0] : offsets[end, 1]], "score": float(allowed[start, end])}
