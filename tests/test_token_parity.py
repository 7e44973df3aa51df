"""Which generations pass: equal tokens, or others that near-equal logits of the reference explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import parity
from harness.model import ParityRecord

NEW_TOKENS = 4
TOP = np.array([9.0, 8.0, 7.0], np.float32)
"""Logits of tokens 0, 1, 2, of every row and step: their root mean square is 8.04, so float32 is allowed 0.008."""


def reference(**changes: Any) -> dict[str, Any]:
    """Two rows that always choose token 0."""
    shape = (2, NEW_TOKENS, len(TOP))
    plain = {
        "tokens": np.zeros((2, NEW_TOKENS), np.int64),
        "top_tokens": np.broadcast_to(np.arange(len(TOP)), shape).copy(),
        "top_logits": np.broadcast_to(TOP, shape).copy(),
    }
    return {**plain, **changes}


def near_reference() -> dict[str, Any]:
    """Of row 1, token 1 is nearly as likely as token 0 at position 2."""
    near = reference()
    near["top_logits"][1, 2] = [9.0, 8.999, 7.0]
    return near


def judged(expected: dict[str, Any], found: dict[str, Any], dtype: str = "float32") -> ParityRecord:
    return parity.judge([expected], [found], dtype, "before")


def tokens(*differing: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All 0 but (row, position, token)."""
    chosen = np.zeros((2, NEW_TOKENS), np.int64)
    for row, position, token in differing:
        chosen[row, position] = token
    return chosen


def test_equal_tokens_and_logits_pass_and_say_so() -> None:
    record = judged(reference(), reference())
    assert (record.passed, record.max_abs, record.message) == (True, 0.0, None)
    assert (record.tokens_equal, record.first_token_difference) == (True, None)


def test_where_end_of_text_ends_texts_they_are_judged_up_to_the_references() -> None:
    """The reference went on past it: row 0 has token 5 at position 1, row 1 has none."""
    expected, chosen = reference(tokens=tokens((0, 1, 5))), tokens((0, 1, 5), (0, 2, 5), (0, 3, 5))
    expected["top_tokens"][0, 1], found = [5, 1, 2], {"tokens": chosen}
    ended = parity.judge([expected], [found], "float32", "before", eos_token_ids=(5, 6))
    assert (ended.passed, ended.tokens_equal, ended.message) == (True, True, None)
    assert not judged(expected, found).passed
    late = parity.judge([expected], [{"tokens": tokens((0, 2, 5))}], "float32", "before", eos_token_ids=(5,))
    early = parity.judge([expected], [{"tokens": tokens((1, 2, 5))}], "float32", "before", eos_token_ids=(5,))
    assert (late.passed, late.first_token_difference) == (False, 1)
    assert (early.passed, early.first_token_difference) == (False, 1)


def test_logits_after_the_references_end_of_text_are_not_compared() -> None:
    expected, found = reference(tokens=tokens((0, 1, 5))), reference(tokens=tokens((0, 1, 5)))
    found["top_logits"][0, 2] += 1
    assert parity.judge([expected], [found], "float32", "before", eos_token_ids=(5,)).passed
    assert not parity.judge([expected], [found], "float32", "before").passed


def test_a_generation_of_tokens_alone_is_judged_by_them() -> None:
    record = judged(reference(), {"tokens": tokens()})
    assert (record.passed, record.max_abs, record.tokens_equal) == (True, None, True)


def test_another_token_of_nearly_the_same_logit_passes_and_is_told_apart_from_an_equal_one() -> None:
    record = judged(near_reference(), {"tokens": tokens((1, 2, 1), (1, 3, 17))})
    assert (record.passed, record.tokens_equal, record.first_token_difference) == (True, False, 2)
    assert record.message is not None
    assert record.message.startswith("slot 0, row 1: at position 2 it chose token 1, the reference 0, whose logits")


@pytest.mark.parametrize(
    ("token", "said"),
    [(1, "whose logits of the two are 1 apart; allowed is 0.008"), (17, "to which 3 others are likelier")],
)
def test_another_token_that_the_reference_finds_less_likely_fails(token: int, said: str) -> None:
    record = judged(reference(), {"tokens": tokens((0, 1, token))})
    assert (record.passed, record.tokens_equal, record.first_token_difference) == (False, False, 1)
    assert said in str(record.message)


def test_a_row_counts_up_to_its_first_difference_and_rows_count_apart() -> None:
    explained_and_not = {"tokens": tokens((1, 2, 1), (0, 3, 2))}
    record = judged(near_reference(), explained_and_not)
    assert (record.passed, record.first_token_difference) == (False, 2)
    assert str(record.message).startswith("slot 0, row 0: at position 3")


def test_logits_that_differ_fail_although_the_tokens_are_equal() -> None:
    found = reference()
    found["top_logits"][0, 3, 1] += 0.5
    record = judged(reference(), found)
    assert (record.passed, record.tokens_equal, record.max_abs) == (False, True, 0.5)
    assert "logits of the same tokens differ by 0.5" in str(record.message)


def test_logits_after_a_difference_have_another_past_and_are_not_compared() -> None:
    found = near_reference() | {"tokens": tokens((1, 2, 1))}
    found["top_logits"][1, 3] += 5
    assert judged(near_reference(), found).passed
    found["top_logits"][1, 2] += 5  # at the difference itself they have the same one
    assert not judged(near_reference(), found).passed


def test_logits_are_compared_by_token_whatever_their_order() -> None:
    found = near_reference()
    found["top_tokens"][1, 2] = [1, 0, 2]
    found["top_logits"][1, 2] = [9.0, 8.999, 7.0]
    record = judged(near_reference(), found)
    assert record.passed
    assert record.max_abs == pytest.approx(0.001, rel=1e-3)


def test_a_likely_token_that_is_not_among_the_others_largest_has_fallen_at_least_so_far() -> None:
    found = reference()
    found["top_tokens"][0, 0] = [0, 1, 5]
    found["top_logits"][0, 0] = [9.0, 8.0, 6.999]
    assert judged(reference(), found).max_abs == pytest.approx(0.001, rel=1e-3)
    found["top_logits"][0, 0, 2] = 2.0
    assert judged(reference(), found).max_abs == 5.0


def test_sixteen_bits_explain_wider_gaps() -> None:
    other = {"tokens": tokens((0, 1, 1))}
    wide = reference()
    wide["top_logits"][0, 1] = [9.0, 8.9, 7.0]
    assert not judged(wide, other).passed
    assert judged(wide, other, "bfloat16").passed


def test_too_few_tokens_and_logits_that_are_no_numbers_fail_as_such() -> None:
    record = judged(reference(), {"tokens": tokens()[:, :-1]})
    assert "tokens has shape (2, 3), the reference (2, 4)" in str(record.message)
    found = reference()
    found["top_logits"][0, 0, 0] = np.nan
    assert not judged(reference(), found).finite


# --- beams ----------------------------------------------------------------------------------------------------------


def beams(chosen: Any, *scores: float) -> dict[str, Any]:
    return {"tokens": chosen, "sequences_scores": np.array(scores, np.float32)}


def test_beams_that_score_as_well_are_as_good_and_others_are_not() -> None:
    expected = beams(tokens(), -1.0, -2.0)
    assert judged(expected, expected).tokens_equal
    as_good = judged(expected, beams(tokens((1, 3, 4)), -1.0, -2.0005))
    assert (as_good.passed, as_good.tokens_equal, as_good.first_token_difference) == (True, False, 3)
    worse = judged(expected, beams(tokens((1, 3, 4)), -1.0, -2.1))
    assert not worse.passed
    assert "whose score is -2.1, the reference's -2" in str(worse.message)


def test_equal_beams_of_other_scores_fail() -> None:
    record = judged(beams(tokens(), -1.0, -2.0), beams(tokens(), -1.0, -2.1))
    assert (record.passed, record.tokens_equal) == (False, True)
    assert "scores differ by 0.1" in str(record.message)
