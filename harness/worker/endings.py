"""Where texts end that may end early: how many tokens a generation has really produced. Host and worker both import this module.

A row's text ends with the first of its tokens that means end-of-text. What stands after it only fills the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[Any]
"""int64 of (batch, new tokens)."""


def lengths(tokens: Tokens, eos_token_ids: Sequence[int]) -> npt.NDArray[np.int64]:
    """By row, its tokens up to and including the first end-of-text; all where it has none."""
    ends = np.isin(tokens, eos_token_ids)
    found: npt.NDArray[np.int64] = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, tokens.shape[1])
    return found


def produced(tokens: Tokens, eos_token_ids: Sequence[int]) -> int:
    """Of all rows together. Raises ValueError where one goes on after its end, as if nothing could end it."""
    by_row = lengths(tokens, eos_token_ids)
    is_after = np.arange(tokens.shape[1]) >= by_row[:, np.newaxis]
    goes_on = (is_after & ~np.isin(tokens, eos_token_ids)).any(axis=1)
    if goes_on.any():
        row = int(goes_on.argmax())
        raise ValueError(f"row {row} goes on after its end-of-text at position {by_row[row] - 1}: nothing has ended it")
    return int(by_row.sum())


def filled(tokens: Tokens, new_tokens: int, eos_token_ids: Sequence[int]) -> Tokens:
    """Tokens of a call that may have ended early, (batch, at most new tokens), as outputs are: what it lacks is end-of-text."""
    missing = new_tokens - tokens.shape[1]
    return np.pad(tokens, ((0, 0), (0, missing)), constant_values=eos_token_ids[0]) if missing else tokens


class CountedCalls:
    """Sees to it that every call makes as many tokens as it should: those asked for, or where texts may end early as many as the
    first call on the same slot, and no more."""

    def __init__(self, wanted: int, *, may_end_early: bool) -> None:
        self._wanted = wanted
        self._may_end_early = may_end_early
        self._first: dict[int, int] = {}

    def check(self, slot: int, made: int) -> None:
        """Raises RuntimeError."""
        if not self._may_end_early and made != self._wanted:
            raise RuntimeError(f"generate() made {made} tokens where {self._wanted} were asked for")
        if made > self._wanted:
            raise RuntimeError(f"generate() made {made} tokens where {self._wanted} at most were asked for")
        first = self._first.setdefault(slot, made)
        if made != first:
            raise RuntimeError(
                f"generate() made {made} tokens of slot {slot}, of which its first call had made {first}"
            )
