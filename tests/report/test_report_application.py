"""The sentence that says where an application's time goes."""

from __future__ import annotations

from typing import Any

import pytest
from store.factories import a_cell, a_result

from harness.model import Result
from harness.report.application import where_time_goes
from harness.report.layout import paragraph
from report.cases import measured

PARTS = {"tokenize_s": 0.0006, "transfer_s": 0.00002, "model_s": 0.0296, "postprocess_s": 0.0009}


def application(**numbers: Any) -> Result:
    known = {"median_latency_s": 0.0312, "application_latency_s": 0.0312, **PARTS, **numbers}
    return a_result(a_cell(operation="application"), measurements=measured(known))


def test_it_tells_every_part_the_delta_to_the_model_and_what_to_optimise() -> None:
    assert where_time_goes(application()) == (
        "eager: of 31.2ms a call tokenize 2 %, transfer 0 %, model 95 %, post-process 3 %; 1.52ms more than the model alone: "
        "optimise the model."
    )


@pytest.mark.parametrize(
    ("longest", "what"),
    [
        ("tokenize_s", "what reads the input"),
        ("transfer_s", "the way to the device"),
        ("model_s", "the model"),
        ("postprocess_s", "what follows the model"),
    ],
)
def test_it_names_the_part_in_which_most_of_the_time_goes(longest: str, what: str) -> None:
    told = where_time_goes(application(**{longest: 1.0}))
    assert told is not None
    assert told.endswith(f"alone: optimise {what}.")


@pytest.mark.parametrize("unknown", ["application_latency_s", *PARTS])
def test_nothing_is_told_where_a_part_is_not_known(unknown: str) -> None:
    assert where_time_goes(application(**{unknown: None})) is None


def test_it_fits_a_terminal() -> None:
    told = where_time_goes(application())
    assert told is not None
    assert all(len(line.plain) <= 80 for line in paragraph(told, 80))
