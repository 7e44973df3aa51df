"""Columns of a dataset follow the records: every field, one type each."""

from __future__ import annotations

from typing import Any

from harness.interchange.columns import columns_of, features, merged, plain
from harness.model import InputSpec, Record, Status


class Everything(Record):
    text: str
    whole: int | None
    part: float
    truth: bool
    status: Status
    inner: InputSpec | None
    many: list[list[float]]
    records: list[InputSpec]
    mapping: dict[str, int]
    several: str | float


def test_every_kind_of_field_has_a_column() -> None:
    inner = {"seed": "int64", "slots": "int64", "generator": "int64"}
    assert columns_of(Everything) == {
        "text": "string",
        "whole": "int64",
        "part": "float64",
        "truth": "bool",
        "status": "string",
        "inner": inner,
        "many": [["float64"]],
        "records": [inner],
        "mapping": "json",
        "several": "json",
    }


def test_values_take_the_shape_of_their_columns() -> None:
    value: dict[str, Any] = {
        "inner": {"seed": 3},
        "mapping": {"b": [1], "a": "ü"},
        "records": [{"seed": 1, "slots": 2}],
    }
    told = plain(value, columns_of(Everything))
    assert list(told) == list(Everything.model_fields)
    assert told["inner"] == {"seed": 3, "slots": None, "generator": None}
    assert told["mapping"] == '{"a": "ü", "b": [1]}'
    assert told["records"] == [{"seed": 1, "slots": 2, "generator": None}]
    assert told["text"] is None


def test_features_are_written_as_datasets_reads_them() -> None:
    """The forms that `datasets.Features._to_yaml_list` gives for the same types."""
    told = {each["name"]: each for each in features(columns_of(Everything))}
    assert told["whole"] == {"name": "whole", "dtype": "int64"}
    assert told["mapping"] == {"name": "mapping", "dtype": "string"}
    assert told["many"] == {"name": "many", "list": {"list": "float64"}}
    assert [each["name"] for each in told["inner"]["struct"]] == ["seed", "slots", "generator"]
    assert told["records"]["list"] == told["inner"]["struct"]


def test_features_that_only_the_card_knows_stay_also_within_others() -> None:
    stored = [
        {"name": "mine", "dtype": "string"},
        {"name": "a", "struct": [{"name": "newer", "dtype": "bool"}, {"name": "x", "dtype": "null"}]},
        "no feature",
    ]
    ours = [{"name": "a", "struct": [{"name": "x", "dtype": "int64"}]}, {"name": "b", "dtype": "bool"}]
    assert merged(stored, ours) == [
        {"name": "mine", "dtype": "string"},
        {"name": "a", "struct": [{"name": "newer", "dtype": "bool"}, {"name": "x", "dtype": "int64"}]},
        {"name": "b", "dtype": "bool"},
    ]


def test_joining_again_changes_nothing() -> None:
    ours = features(columns_of(Everything))
    assert merged(merged([], ours), ours) == ours
