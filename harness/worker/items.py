"""How much one call works on, counted from its inputs: a rate is of one of these, and its unit says of which."""

from __future__ import annotations

from harness.tasks import AUDIO_FRAMES_HZ, AUDIO_HZ
from harness.worker.api import Arrays

_TOKENS = ("input_ids", "decoder_input_ids")
_AUDIO = {"input_values": AUDIO_HZ, "input_features": AUDIO_FRAMES_HZ}
"""Inputs whose last dimension is time -> places of it in a second."""


def count_items(slot: Arrays) -> dict[str, int]:
    """Items of one call on a slot's inputs, the one that throughput is told in first.

    images         rows of pixels
    samples        rows of text or audio
    tokens         of text, those that the model is to read, its decoder's included: no padding
    positions      all that are computed: tokens and padding. Equal to `tokens` where there is no padding
    audio_seconds  of all rows together, where they are whole. What a decoder is given beside audio is not counted
    """
    if "pixel_values" in slot:
        return {"images": len(slot["pixel_values"])}
    if _AUDIO.keys() & slot.keys():
        return _count_audio(slot)
    positions = sum(slot[name].size for name in _TOKENS if name in slot)
    mask = slot.get("attention_mask")
    padding = 0 if mask is None else mask.size - int(mask.sum())
    return {"samples": len(slot["input_ids"]), "tokens": positions - padding, "positions": positions}


def _count_audio(slot: Arrays) -> dict[str, int]:
    name = next(name for name in _AUDIO if name in slot)
    rows, places = len(slot[name]), slot[name].shape[-1]
    seconds, rest = divmod(rows * places, _AUDIO[name])
    return {"samples": rows} if rest else {"samples": rows, "audio_seconds": seconds}
