"""Parts of an application's calls, from stamps to medians."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.application import FIELDS, part_medians_s
from harness.model import Measurements
from harness.samples import MarkedSamples
from harness.tasks import APPLICATION_PARTS

STAMPS = np.array([[2, 3, 43, 50], [4, 5, 46, 48], [3, 4, 41, 45]]) * 1_000_000


def marked(names: tuple[str, ...] = APPLICATION_PARTS, stamps: npt.NDArray[np.int64] = STAMPS) -> MarkedSamples:
    return MarkedSamples(names, np.full(len(stamps), 51_000_000), stamps)


def test_a_part_is_what_lies_between_two_stamps_of_a_call_and_its_median_is_over_calls() -> None:
    assert part_medians_s(marked()) == {"tokenize": 0.003, "transfer": 0.001, "model": 0.040, "postprocess": 0.004}


def test_calls_that_stamped_something_else_have_no_parts() -> None:
    assert part_medians_s(marked(("first_token", "token", "token", "token"))) == {}


def test_without_marked_calls_there_are_no_parts() -> None:
    assert part_medians_s(None) == {}
    assert part_medians_s(marked(stamps=STAMPS[:0])) == {}


def test_each_part_is_a_number_of_a_result() -> None:
    assert list(FIELDS) == list(APPLICATION_PARTS)
    assert set(FIELDS.values()) <= set(Measurements.model_fields)
