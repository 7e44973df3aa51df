"""How many tokens each row of a batch has; what is left of `sequence_length` is padding."""

from __future__ import annotations

import numpy as np

from harness.model import Cell
from harness.support import real_tokens

_SHORTEST = 0.25  # of sequence_length, of sampled lengths


def row_lengths(cell: Cell, random: np.random.RandomState) -> list[int]:
    """Tokens of each row of the cell's batch, by its `padding`; at least one."""
    if cell.padding == "sampled":
        return _sampled(cell.batch_size, cell.sequence_length, random)
    padding = cell.padding if isinstance(cell.padding, float) else 0.0
    return [real_tokens(padding, cell.sequence_length)] * cell.batch_size


def _sampled(rows: int, longest: int, random: np.random.RandomState) -> list[int]:
    """Between a quarter of the row and all but a token of it: one from each of as many equal spans as there are rows.

    So a small batch has short and long rows too, whatever the seed.
    """
    places = (np.arange(rows) + random.random_sample(rows)) / rows  # in [0, 1)
    lengths = np.floor(longest * (_SHORTEST + (1 - _SHORTEST) * places)).astype(int)
    return [max(int(length), 1) for length in lengths]
