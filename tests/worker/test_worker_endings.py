"""Where texts end that may end early, and how many tokens they have by then."""

from __future__ import annotations

import numpy as np
import pytest

from harness.worker.endings import CountedCalls, filled, lengths, produced

ENDING = (7, 9)


def test_a_text_ends_with_its_first_end_of_text_or_with_its_last_token() -> None:
    tokens = np.array([[1, 2, 9, 7], [7, 7, 7, 7], [1, 2, 3, 4], [1, 2, 3, 9]])
    assert lengths(tokens, ENDING).tolist() == [3, 1, 4, 4]
    assert produced(tokens, ENDING) == 12


def test_a_text_that_goes_on_after_its_end_is_refused_and_located() -> None:
    with pytest.raises(ValueError, match="row 1 goes on after its end-of-text at position 1"):
        produced(np.array([[1, 2, 3], [1, 7, 3]]), ENDING)


def test_calls_that_end_early_are_filled_up_with_end_of_text() -> None:
    assert filled(np.array([[1, 9], [2, 3]]), 4, ENDING).tolist() == [[1, 9, 7, 7], [2, 3, 7, 7]]
    assert filled(np.array([[1, 2]]), 2, ()).tolist() == [[1, 2]]


def test_calls_make_what_was_asked_for_and_where_texts_may_end_what_the_slot_has_made_before() -> None:
    exact, early = CountedCalls(4, may_end_early=False), CountedCalls(4, may_end_early=True)
    exact.check(0, 4)
    early.check(0, 3)
    early.check(1, 4)
    early.check(0, 3)
    for counted, slot, made, message in (
        (exact, 1, 3, "made 3 tokens where 4 were asked for"),
        (early, 2, 5, "made 5 tokens where 4 at most were asked for"),
        (early, 0, 2, "made 2 tokens of slot 0, of which its first call had made 3"),
    ):
        with pytest.raises(RuntimeError, match=message):
            counted.check(slot, made)
