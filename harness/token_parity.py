"""Judges the tokens that a generation chose, and the logits it chose by, against the reference's. Pure, with numpy alone.

Two right backends may choose differently where two logits are nearly equal, and all that follows then differs. So each row
counts up to its first difference, which is held to be right where the reference's own logits of the two tokens are as near as
logits may differ anyway; and no further than the reference's end-of-text, where that ends texts. Docs: docs/methodology.md,
"Generation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.model import ParityRecord
from harness.worker.endings import lengths

Outputs = Mapping[str, npt.NDArray[Any]]
"""`tokens`, (batch, new tokens); with them `top_tokens` and `top_logits`, (batch, new tokens, kept), the largest of each step, or
of a beam search `sequences_scores`, (batch,); or nothing more."""


@dataclass(frozen=True)
class _Difference:
    """Of one row, where its first token differs."""

    position: int
    is_near: bool  # explained by logits or scores that are nearly equal
    message: str


@dataclass(frozen=True)
class _Slot:
    """One slot, and how far logits or scores may be apart in it."""

    index: int
    reference: Outputs
    outputs: Outputs
    allowed: float
    eos_token_ids: Sequence[int]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """By row, how many tokens count: those of the reference, its end-of-text the last."""
        return lengths(self.reference["tokens"], self.eos_token_ids)

    @cached_property
    def firsts(self) -> npt.NDArray[np.int64]:
        """By row, the position of the first difference; the number of tokens that count where there is none."""
        differs = (self.reference["tokens"] != self.outputs["tokens"]) & self._before(self.lengths)
        firsts: npt.NDArray[np.int64] = np.where(differs.any(axis=1), differs.argmax(axis=1), self.lengths)
        return firsts

    @property
    def compares(self) -> npt.NDArray[np.bool_]:
        """(batch, new tokens): where both chose after the same tokens, the step of the first difference the last."""
        return self._before(np.minimum(self.firsts + 1, self.lengths))

    def _before(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        before: npt.NDArray[np.bool_] = np.arange(self.reference["tokens"].shape[1]) < ends[:, np.newaxis]
        return before


def judge_tokens(
    reference: Sequence[Outputs],
    outputs: Sequence[Outputs],
    allowed: Sequence[float],
    when: Literal["before", "after"],
    eos_token_ids: Sequence[int] = (),
) -> ParityRecord:
    """Compare every slot. Shapes must agree; `allowed`, by slot, is of logits, or of scores where there are those."""
    slots = [_Slot(i, *each, eos_token_ids) for i, each in enumerate(zip(reference, outputs, allowed, strict=True))]
    differences = [difference for slot in slots for difference in _differences(slot)]
    apart = [(slot, _furthest(slot)) for slot in slots]
    wrong = [each.message for each in differences if not each.is_near]
    wrong += [_too_far(slot, found) for slot, found in apart if found is not None and found > slot.allowed]
    told = wrong or [each.message for each in differences]
    return ParityRecord(
        when=when,
        passed=not wrong,
        max_abs=max((found for _, found in apart if found is not None), default=None),
        message=next(iter(told), None),
        tokens_equal=not differences,
        first_token_difference=min((each.position for each in differences), default=None),
    )


def _differences(slot: _Slot) -> list[_Difference]:
    rows = np.flatnonzero(slot.firsts < slot.lengths)
    judge = _by_logits if "top_logits" in slot.reference else _by_score
    return [judge(slot, int(row), int(slot.firsts[row])) for row in rows]


def _by_logits(slot: _Slot, row: int, position: int) -> _Difference:
    wanted, found = (int(each["tokens"][row, position]) for each in (slot.reference, slot.outputs))
    what = f"slot {slot.index}, row {row}: at position {position} it chose token {found}, the reference {wanted}"
    tokens, logits = (slot.reference[name][row, position] for name in ("top_tokens", "top_logits"))
    if found not in tokens:
        return _Difference(position, is_near=False, message=f"{what}, to which {len(tokens)} others are likelier")
    gap = float(logits[0] - logits[tokens == found].max())
    told = f"{what}, whose logits of the two are {gap:.2g} apart; allowed is {slot.allowed:.2g}"
    return _Difference(position, is_near=gap <= slot.allowed, message=told)


def _by_score(slot: _Slot, row: int, position: int) -> _Difference:
    """Of beams: another sequence is as good as the reference's where it scores as well."""
    wanted, found = (float(each["sequences_scores"][row]) for each in (slot.reference, slot.outputs))
    told = (
        f"slot {slot.index}, row {row}: another sequence from position {position} on, whose score is {found:.4g}, the reference's "
        f"{wanted:.4g}; allowed is a difference of {slot.allowed:.2g}"
    )
    return _Difference(position, is_near=abs(found - wanted) <= slot.allowed, message=told)


def _furthest(slot: _Slot) -> float | None:
    """The largest difference of what compares; None where the outputs are tokens alone."""
    if "sequences_scores" in slot.reference:
        scores = (each["sequences_scores"].astype(np.float64) for each in (slot.reference, slot.outputs))
        return float(np.abs(np.subtract(*scores)).max())
    if "top_logits" not in slot.outputs:
        return None
    return float(_logit_differences(slot)[slot.compares].max())


def _logit_differences(slot: _Slot) -> npt.NDArray[np.float64]:
    """(batch, new tokens, kept): of each of the reference's largest logits from the other's for the same token.

    Where the other has kept none for it, at least how far it must have fallen to be none of the largest.
    """
    wanted, found = (each["top_logits"].astype(np.float64) for each in (slot.reference, slot.outputs))
    is_same = slot.reference["top_tokens"][..., :, np.newaxis] == slot.outputs["top_tokens"][..., np.newaxis, :]
    same = np.where(is_same, found[..., np.newaxis, :], 0).sum(axis=-1)
    fallen = np.maximum(wanted - found.min(axis=-1, keepdims=True), 0)
    differences: npt.NDArray[np.float64] = np.where(is_same.any(axis=-1), np.abs(wanted - same), fallen)
    return differences


def _too_far(slot: _Slot, found: float) -> str:
    what = "scores" if "sequences_scores" in slot.reference else "logits of the same tokens"
    return f"slot {slot.index}: {what} differ by {found:.2g}, allowed is {slot.allowed:.2g}"
