"""A generation by steps becomes one set of outputs, of which only the largest logits are kept."""

from __future__ import annotations

import numpy as np
import pytest
from worker_driver import ClockedOperation, ManualClock

from harness.worker.api import Arrays
from harness.worker.decoding import KEPT_LOGITS, decode_outputs, step_outputs

VOCABULARY = 30


class Steps(ClockedOperation):
    """Three steps after the first token; logits of step n lead with token n in row 0, and with token 20 + n in row 1."""

    def __init__(self) -> None:
        super().__init__(ManualClock(), calls_per_begin=3)

    def begin(self, slot: int) -> None:
        super().begin(slot)
        self.calls = 0

    def outputs(self) -> Arrays:
        logits = np.zeros((2, VOCABULARY), np.float32)
        logits[0, self.calls], logits[1, 20 + self.calls] = 5, 7
        return {"tokens": np.array([self.calls, 20 + self.calls]), "logits": logits}


def test_all_tokens_chosen_stand_in_order_with_the_logits_they_were_chosen_from() -> None:
    operation = Steps()
    outputs = decode_outputs(operation, slot=4)
    assert operation.begun == [4]
    assert outputs["tokens"].tolist() == [[0, 1, 2, 3], [20, 21, 22, 23]]
    assert outputs["top_tokens"].shape == outputs["top_logits"].shape == (2, 4, KEPT_LOGITS)
    assert outputs["top_tokens"][..., 0].tolist() == outputs["tokens"].tolist()
    assert outputs["top_logits"][..., 0].tolist() == [[5] * 4, [7] * 4]


def test_the_largest_logits_are_kept_in_order_and_of_equal_ones_the_lower_token_first() -> None:
    logits = np.arange(VOCABULARY, dtype=np.float32)[np.newaxis].copy()
    logits[0, [3, 28]] = 100
    kept = step_outputs({"logits": logits})
    assert kept["top_tokens"].tolist() == [[3, 28, 29, 27, 26, 25, 24, 23]]
    assert kept["tokens"].tolist() == [3]


def test_a_logit_that_is_no_number_is_kept_so_that_it_is_seen() -> None:
    logits = np.zeros((1, VOCABULARY), np.float32)
    logits[0, 17] = np.nan
    assert np.isnan(step_outputs({"logits": logits})["top_logits"][0, 0])


def test_of_a_small_vocabulary_all_logits_are_kept() -> None:
    assert step_outputs({"logits": np.zeros((2, 5), np.float32)})["top_tokens"].tolist() == [[0, 1, 2, 3, 4]] * 2


def test_an_operation_that_does_not_say_where_its_steps_end_is_no_decode() -> None:
    with pytest.raises(TypeError, match="calls_per_begin of new_tokens - 1"):
        decode_outputs(ClockedOperation(ManualClock()), 0)
