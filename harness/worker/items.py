"""How much one call works on, counted from its inputs: a rate is of one of these, and its unit says of which."""

from __future__ import annotations

from harness.worker.api import Arrays

_TOKENS = ("input_ids", "decoder_input_ids")


def count_items(slot: Arrays) -> dict[str, int]:
    """Items of one call on a slot's inputs, the one that throughput is told in first.

    images     rows of pixels
    samples    rows of text
    tokens     of text, those that the model is to read, its decoder's included: no padding
    positions  all that are computed: tokens and padding. Equal to `tokens` where there is no padding
    """
    if "pixel_values" in slot:
        return {"images": len(slot["pixel_values"])}
    positions = sum(slot[name].size for name in _TOKENS if name in slot)
    mask = slot.get("attention_mask")
    padding = 0 if mask is None else mask.size - int(mask.sum())
    return {"samples": len(slot["input_ids"]), "tokens": positions - padding, "positions": positions}
