"""Audio has the length that is asked for or that the model takes; of it a decoder is given what it is to say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.checkpoints import Checkpoint
from harness.inputs import make_inputs
from harness.model import Cell
from harness.worker.arrays import read_inputs
from harness.worker.items import count_items

SPEECH = "automatic-speech-recognition"
WAV2VEC2 = {"model_type": "wav2vec2", "vocab_size": 32, "conv_dim": [8], "pad_token_id": 0}
WHISPER = {
    "model_type": "whisper",
    "vocab_size": 100,
    "is_encoder_decoder": True,
    "num_mel_bins": 8,
    "max_source_positions": 100,
    "decoder_start_token_id": 3,
}


def made(folder: Path, config: Mapping[str, Any], **changes: Any) -> dict[str, npt.NDArray[Any]]:
    fields = {"model": "path:tiny", "checkpoint": "path:sha256:0", "threads": 1, "backend": "eager", "task": SPEECH}
    cell = Cell(**{**fields, "batch_size": 2, "sequence_length": 6, **changes})
    return read_inputs(make_inputs(cell, Checkpoint("path:sha256:0", folder, "0" * 64, config, None), folder).folder)


@pytest.mark.parametrize(("asked", "seconds"), [(None, 5), (1, 1), (3, 3)])
def test_a_waveform_is_as_long_as_asked_or_five_seconds(tmp_path: Path, asked: int | None, seconds: int) -> None:
    inputs = made(tmp_path, WAV2VEC2, audio_seconds=asked)
    assert inputs.keys() == {"input_values"}
    waveforms = inputs["input_values"]
    assert (waveforms.shape, waveforms.dtype) == ((8, 2, 16_000 * seconds), np.float32)
    assert count_items({"input_values": waveforms[0]}) == {"samples": 2, "audio_seconds": 2 * seconds}


def test_waveforms_are_normalised_and_no_two_rows_are_equal(tmp_path: Path) -> None:
    waveforms = made(tmp_path, WAV2VEC2, audio_seconds=1)["input_values"]
    assert abs(float(waveforms.mean())) < 0.01
    assert abs(float(waveforms.std()) - 1) < 0.01
    assert len({row.tobytes() for slot in waveforms for row in slot}) == 16


def test_a_spectrogram_has_the_models_length_and_comes_with_a_text_for_the_decoder(tmp_path: Path) -> None:
    inputs = made(tmp_path, WHISPER)
    assert inputs.keys() == {"input_features", "decoder_input_ids"}
    assert inputs["input_features"].shape == (8, 2, 8, 200)
    ids = inputs["decoder_input_ids"]
    assert (ids.shape, ids.dtype) == ((8, 2, 6), np.int64)
    assert set(ids[..., 0].ravel()) == {3}
    assert len({row.tobytes() for slot in ids for row in slot}) == 16
    assert count_items({name: array[0] for name, array in inputs.items()}) == {"samples": 2, "audio_seconds": 4}


def test_what_extracts_features_gives_its_encoder_no_text(tmp_path: Path) -> None:
    assert made(tmp_path, WHISPER, task="feature-extraction").keys() == {"input_features"}


def test_raw_audio_is_a_waveform_of_the_same_length(tmp_path: Path) -> None:
    raw = made(tmp_path, WAV2VEC2, audio_seconds=1, operation="application")["audio"]
    assert (raw.shape, raw.dtype) == ((8, 2, 16_000), np.float32)
    assert -1 <= raw.min() < -0.9 < 0.9 < raw.max() <= 1
