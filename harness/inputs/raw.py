"""Raw inputs, for what begins with a tokenizer, an image processor or a feature extractor: texts as Unicode, images as bytes,
audio as waveforms.

A text is a row of `harness.inputs.text` before it was encoded, cut where the row ends, so that encoding it fills the row again:
an application works on the tokens that its forward pass alone is measured with. Cutting within a word can make other tokens of its
end, so the cut text is encoded once more, and drawn anew where the row would not come out as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.checkpoints import Checkpoint
from harness.inputs.audio import noise, samples
from harness.inputs.text import EncodedRows, Filled
from harness.model import Cell, HarnessError

_DRAWS = 100  # of a row; most come out at once
_IMAGE_SHAPE = (480, 640, 3)  # height, width and colours: a small photo, larger than what models take

_NAMES = ("text", "text_pair")
"""As tokenizers call what they are given; of questions and the texts that may answer them, the questions are `text`."""


class RawTextMaker:
    """Makes the slots of one workload."""

    def __init__(self, cell: Cell, checkpoint: Checkpoint, shortest: int) -> None:
        """`shortest`: tokens of the shortest row. Raises HarnessError where there can be no such rows."""
        self._rows = EncodedRows(checkpoint, cell.task, shortest)

    def slot(self, random: np.random.RandomState, lengths: Sequence[int]) -> dict[str, npt.NDArray[np.str_]]:
        """One slot, of a text (or two) for each row, which have so many tokens. Raises HarnessError."""
        rows = [self._row(random, int(length)) for length in lengths]
        return {name: np.array(column) for name, column in zip(_NAMES, zip(*rows, strict=True), strict=False)}

    def _row(self, random: np.random.RandomState, length: int) -> tuple[str, ...]:
        for _ in range(_DRAWS):
            filled = self._rows.filled(random, length)
            text = self._masked(random, filled) if self._rows.mask_id is not None else _cut(filled)
            if self._fills(filled.question, text, length):
                return (text,) if filled.question is None else (filled.question, text)
        raise HarnessError(
            f"the checkpoint's tokenizer makes other rows than of {length} tokens of texts that were cut to that length: it is "
            "of no use here"
        )

    def _masked(self, random: np.random.RandomState, filled: Filled) -> str:
        """The text with the mask token in place of one of its tokens."""
        assert self._rows.mask_id is not None
        spans = _spans(filled)
        start, end = spans[random.randint(len(spans))]
        text = _cut(filled)
        return text[:start] + self._rows.token(self._rows.mask_id) + text[end:]

    def _fills(self, question: str | None, text: str, length: int) -> bool:
        ids = self._rows.encode(question, text).ids
        return len(ids) == length and self._rows.mask_id in (None, *ids)


def draw_images(random: np.random.RandomState, count: int) -> dict[str, npt.NDArray[np.uint8]]:
    """One slot of so many images, of (count, height, width, 3). Noise: what is done to an image depends on its size alone."""
    return {"images": random.randint(0, 256, (count, *_IMAGE_SHAPE)).astype(np.uint8)}


def draw_audio(random: np.random.RandomState, cell: Cell) -> dict[str, npt.NDArray[np.float32]]:
    """One slot, of (batch, samples) in full swing. Noise, for the same reason."""
    return {"audio": noise(random, (cell.batch_size, samples(cell)))}


def _cut(filled: Filled) -> str:
    """The part of the text that is in the row."""
    return filled.text[: max(end for _, end in _spans(filled))]


def _spans(filled: Filled) -> list[Any]:
    """Where each token of the text begins and ends in it, those of a question left out."""
    text = 0 if filled.question is None else 1
    tokens = zip(filled.encoding.offsets, filled.encoding.sequence_ids, strict=True)
    return [span for span, sequence in tokens if sequence == text]
