"""What passes and what does not, on small arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from harness import parity
from harness.model import CHOICES, Cell


def slots(*arrays: npt.ArrayLike) -> list[parity.Outputs]:
    return [{"last_hidden_state": np.asarray(array, np.float32)} for array in arrays]


REFERENCE = slots([[3.0, -4.0], [5.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]])


def test_equal_outputs_pass_with_a_difference_of_zero() -> None:
    record = parity.judge(REFERENCE, REFERENCE, "float32", "before")
    assert (record.passed, record.max_abs, record.message) == (True, 0.0, None)


def test_another_order_of_summation_passes_and_its_difference_is_told() -> None:
    near = slots([[3.0, -4.0], [5.0, 1e-5]], [[1.0, 2.0], [3.0, 4.0]])
    record = parity.judge(REFERENCE, near, "float32", "after")
    assert record.passed
    assert record.max_abs == pytest.approx(1e-5)
    assert record.when == "after"


def test_one_wrong_value_in_the_last_slot_fails_and_is_located() -> None:
    wrong = slots([[3.0, -4.0], [5.0, 0.0]], [[1.0, 2.0], [3.0, 4.5]])
    record = parity.judge(REFERENCE, wrong, "float32", "before")
    assert not record.passed
    assert record.max_abs == 0.5
    assert record.message is not None
    assert record.message.startswith("slot 1: last_hidden_state differs by 0.18 of the reference's root mean square")


@pytest.mark.parametrize("odd", [np.zeros((2, 2), "V2"), np.full((2, 2), "0.0")])
def test_what_are_no_numbers_fails_with_what_to_give_instead(odd: npt.NDArray[np.void]) -> None:
    """As bfloat16 of another package's making is read."""
    record = parity.judge(REFERENCE[:1], [{"last_hidden_state": odd}], "bfloat16", "before")
    assert not record.passed
    assert record.message is not None
    assert "no numbers to numpy; outputs() is to give float32" in record.message


def test_the_same_relative_error_is_judged_alike_at_any_scale() -> None:
    for scale in (1e-3, 1.0, 1e3):
        reference = slots([[scale, -scale]])
        assert parity.judge(reference, slots([[scale * 1.0005, -scale]]), "float32", "before").passed
        assert not parity.judge(reference, slots([[scale * 1.005, -scale]]), "float32", "before").passed


def test_fewer_bits_are_given_the_room_that_they_need() -> None:
    found = slots([[3.0, -4.0], [5.01, 0.0]], [[1.0, 2.0], [3.0, 4.0]])
    passed = {precision: parity.judge(REFERENCE, found, precision, "before").passed for precision in parity.TOLERANCES}
    assert passed == {"float32": False, "tf32": True, "float16": True, "bfloat16": True, "int8": True}


def test_every_dtype_has_a_tolerance() -> None:
    assert set(CHOICES["dtype"]) <= set(parity.TOLERANCES)


@pytest.mark.parametrize(
    ("dtype", "option", "precision"),
    [
        ("float32", None, "float32"),
        ("float32", "highest", "float32"),
        ("float32", "high", "tf32"),
        ("float32", "medium", "bfloat16"),
        ("bfloat16", "high", "bfloat16"),
    ],
)
def test_a_cell_is_judged_by_what_its_products_may_be_computed_in(
    dtype: str, option: str | None, precision: str
) -> None:
    cell = Cell(
        model="m", checkpoint="c", threads=1, backend="eager", dtype=dtype, options={"matmul_precision": option}
    )
    assert parity.precision(cell) == precision


def test_int8_may_be_far_off_in_single_values_but_not_in_a_row_of_them() -> None:
    reference, found = np.ones((2, 100)), np.ones((2, 100))
    found[1, 7] = 5  # of a root mean square of 0.4 over the row
    outlier = parity.judge([{"logits": reference}], [{"logits": found}], "int8", "before")
    assert (outlier.passed, outlier.max_abs) == (True, 4)
    found[1] = -1
    wrong = parity.judge([{"logits": reference}], [{"logits": found}], "int8", "before")
    assert not wrong.passed
    assert wrong.message is not None
    assert (
        wrong.message
        == "slot 0: logits: the root mean square of a row's differences is 2 of the reference's, allowed is 1"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_a_numerical_failure_not_a_large_difference(bad: float) -> None:
    found = slots([[3.0, bad], [5.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]])
    record = parity.judge(REFERENCE, found, "float32", "before")
    assert (record.passed, record.finite, record.max_abs) == (False, False, None)
    assert record.message == "slot 0: last_hidden_state has 1 of 4 values that are NaN or infinite"


def test_an_infinity_that_the_reference_has_too_is_no_failure() -> None:
    masked = slots([[3.0, -np.inf]])
    assert parity.judge(masked, masked, "float32", "before").passed


def test_another_shape_is_named_and_no_difference_is_invented() -> None:
    record = parity.judge(slots([[1.0, 2.0]]), slots([1.0, 2.0]), "float32", "before")
    assert (record.passed, record.max_abs) == (False, None)
    assert record.message == "slot 0: last_hidden_state has shape (2,), the reference (1, 2)"


def test_a_missing_output_is_named_and_an_extra_one_is_no_fault() -> None:
    extra = [{**slot, "pooler_output": np.zeros(2)} for slot in REFERENCE]
    assert parity.judge(REFERENCE, extra, "float32", "before").passed
    record = parity.judge(extra, REFERENCE, "float32", "before")
    assert record.message == "slot 0: no output 'pooler_output'; there are ['last_hidden_state']"


def test_fewer_slots_than_the_reference_do_not_pass() -> None:
    record = parity.judge(REFERENCE, REFERENCE[:1], "float32", "before")
    assert record.message == "1 slots of outputs, the reference has 2"


def test_an_all_zero_reference_accepts_zeros_and_nothing_of_size() -> None:
    zeros = slots([[0.0, 0.0]])
    assert parity.judge(zeros, zeros, "float32", "before").passed
    assert not parity.judge(zeros, slots([[0.0, 0.01]]), "float32", "before").passed


def test_outputs_are_read_as_they_were_written(tmp_path: Path) -> None:
    for number, slot in enumerate(REFERENCE):
        np.savez(tmp_path / f"slot-{number}.npz", **dict(slot), allow_pickle=False)
    found = parity.read_outputs(tmp_path, 2)
    assert parity.judge(REFERENCE, found, "float32", "before").max_abs == 0.0


def test_a_pickle_in_an_outputs_file_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "slot-0.npz", last_hidden_state=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        parity.read_outputs(tmp_path, 1)


def test_what_stands_at_padding_counts_for_nothing() -> None:
    mask = np.array([[[1, 1, 0]]])
    reference = [{"logits": np.array([[[1.0], [2.0], [3.0]]], np.float32)}]
    masked = parity.without_padding(reference, mask, ["logits"])
    other_padding, other_token = np.array([[[1.0], [2.0], [np.nan]]]), np.array([[[1.0], [9.0], [3.0]]])
    assert parity.judge(masked, [{"logits": other_padding}], "float32", "before").passed
    assert not parity.judge(masked, [{"logits": other_token}], "float32", "before").passed
    assert masked[0]["logits"].dtype == np.float32


def test_outputs_of_two_dimensions_and_those_not_named_are_handled_too() -> None:
    mask = np.array([[[1, 0]]])
    masked = parity.without_padding(
        [{"start_logits": np.ones((1, 2)), "pooled": np.ones((1, 4))}], mask, ["start_logits"]
    )
    assert np.isnan(masked[0]["start_logits"]).tolist() == [[False, True]]
    assert np.isfinite(masked[0]["pooled"]).all()


def test_without_a_mask_all_counts() -> None:
    outputs = [{"logits": np.ones((1, 2))}]
    assert parity.without_padding(outputs, None, ["logits"]) == outputs
