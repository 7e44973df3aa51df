"""Audio as models are given it: waveforms, or spectrograms with what a decoder is to say of them.

It is drawn: noise, as what is done to audio depends on its length alone. Waveforms have the mean of 0 and the variance of 1 that
feature extractors leave, spectrograms lie between -1 and 1, as Whisper's do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.checkpoints import Checkpoint
from harness.inputs.text import DecoderRows
from harness.model import Cell
from harness.support import audio_frames
from harness.tasks import AUDIO_HZ, TASKS, Kind

_AUDIO_SECONDS = 5  # of models that take audio of any length

_UNIFORM = 3**0.5  # half the width of a uniform distribution of variance 1


class AudioMaker:
    """Makes the slots of one workload."""

    def __init__(self, cell: Cell, checkpoint: Checkpoint) -> None:
        """Raises HarnessError where the checkpoint does not tell how its decoder begins."""
        self._rows = cell.batch_size
        self._frames = audio_frames(checkpoint.config)
        self._samples = samples(cell)
        self._mel_bins: int = checkpoint.config.get("num_mel_bins", 0)  # none of a waveform
        is_transcribed = TASKS[cell.task].inputs is Kind.AUDIO and bool(checkpoint.config.get("is_encoder_decoder"))
        self._transcripts = DecoderRows.of(cell, checkpoint) if is_transcribed else None

    def slot(self, random: np.random.RandomState) -> Mapping[str, npt.NDArray[Any]]:
        """One slot."""
        if self._frames is None:
            return {"input_values": _UNIFORM * noise(random, (self._rows, self._samples))}
        inputs: dict[str, npt.NDArray[Any]] = {
            "input_features": noise(random, (self._rows, self._mel_bins, self._frames))
        }
        if self._transcripts is not None:
            inputs["decoder_input_ids"] = self._transcripts.draw(random, self._rows)
        return inputs


def samples(cell: Cell) -> int:
    """Of each row's waveform."""
    return AUDIO_HZ * (cell.audio_seconds or _AUDIO_SECONDS)


def noise(random: np.random.RandomState, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Evenly between -1 and 1."""
    return (random.random_sample(shape) * 2 - 1).astype(np.float32)
