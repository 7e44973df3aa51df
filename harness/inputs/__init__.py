"""Seeded inputs for a workload, made once on the host and read by every backend.

One `<name>.npy` per input, of shape (slots, batch, ...). Every slot has equal shape and other content, so that a cached result
cannot win. Text is encoded with the checkpoint's own tokenizer, special tokens in their places; without a tokenizer token ids are
drawn. How a row is divided into tokens and padding is the cell's `padding`: equal for all slots, so that a call's items are too.
Images and audio are drawn, of the size or length that the cell or the config names.

Random numbers come from NumPy's `RandomState`, whose stream is frozen (NEP 19), so a seed gives the same bytes everywhere.
"""

from harness.inputs.making import GENERATOR, Inputs, TooLargeError, make_inputs

__all__ = ["GENERATOR", "Inputs", "TooLargeError", "make_inputs"]
