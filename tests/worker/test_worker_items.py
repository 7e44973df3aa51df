"""A call's items are counted from its inputs, each by its own name."""

from __future__ import annotations

import numpy as np

from harness.worker.items import count_items

IDS = np.ones((2, 8), np.int64)
MASK = np.array([[1] * 8, [1] * 3 + [0] * 5])


def test_padding_is_computed_but_is_no_token() -> None:
    assert count_items({"input_ids": IDS, "attention_mask": MASK}) == {"samples": 2, "tokens": 11, "positions": 16}


def test_without_padding_every_position_is_a_token() -> None:
    assert count_items({"input_ids": IDS}) == {"samples": 2, "tokens": 16, "positions": 16}


def test_a_decoders_tokens_count_too() -> None:
    slot = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": IDS[:, :4]}
    assert count_items(slot) == {"samples": 2, "tokens": 19, "positions": 24}


def test_images_are_images_and_nothing_else() -> None:
    assert count_items({"pixel_values": np.zeros((3, 3, 8, 8), np.float32)}) == {"images": 3}


def test_audio_is_counted_in_rows_and_in_seconds_of_all_of_them() -> None:
    assert count_items({"input_values": np.zeros((3, 32_000), np.float32)}) == {"samples": 3, "audio_seconds": 6}
    spectrograms = {"input_features": np.zeros((2, 80, 3000), np.float32), "decoder_input_ids": IDS}
    assert count_items(spectrograms) == {"samples": 2, "audio_seconds": 60}


def test_seconds_that_are_not_whole_are_not_counted() -> None:
    assert count_items({"input_values": np.zeros((1, 24_000), np.float32)}) == {"samples": 1}


def test_throughput_is_told_in_the_first() -> None:
    assert next(iter(count_items({"input_ids": IDS}))) == "samples"
