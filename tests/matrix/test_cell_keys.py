"""The key of a cell is its content: nothing more, nothing less."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from harness.model import Cell, InputSpec, digest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
OPTION_VALUES = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    OPTION_VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)

LATER = ("audio_seconds", "stop_at_eos")
"""Axes that came when cells had been stored without them."""

CELLS = st.builds(
    Cell,
    model=st.just("a name"),
    checkpoint=st.sampled_from(["a==1", "a==2"]),
    task=st.sampled_from(["feature-extraction", "fill-mask"]),
    batch_size=st.integers(1, 3),
    sequence_length=st.integers(1, 3),
    padding=st.sampled_from(["none", "sampled", 0.25]),
    image_size=st.none() | st.integers(1, 2),
    audio_seconds=st.none() | st.integers(1, 2),
    dtype=st.sampled_from(["float32", "float16"]),
    device=st.sampled_from(["cpu", "cuda"]),
    threads=st.integers(1, 2),
    compile_cache=st.sampled_from(["cold", "warm"]),
    inputs=st.builds(InputSpec, seed=st.integers(0, 2)),
    backend=st.sampled_from(["eager", "sdpa"]),
    options=st.dictionaries(st.sampled_from(["x", "y"]), OPTION_VALUES, max_size=2),
)


def is_same(left: Any, right: Any) -> bool:
    """Equality of contents said anew: numbers by value, but truth values are no numbers and order of keys is nothing."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if type(left) in (int, float) and type(right) in (int, float):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def written_differently(value: Any) -> Any:
    """The same content with keys in reverse and whole numbers as floats where a float can hold them."""
    if isinstance(value, dict):
        return {name: written_differently(value[name]) for name in reversed(value)}
    if isinstance(value, list):
        return [written_differently(item) for item in value]
    if type(value) is int and math.isfinite(float(value)) and int(float(value)) == value:
        return float(value)
    return value


@given(VALUES, VALUES)
def test_contents_share_a_digest_exactly_when_they_are_the_same(left: Any, right: Any) -> None:
    assert (digest(left) == digest(right)) is is_same(left, right)


@given(VALUES)
def test_key_order_and_the_way_equal_numbers_are_written_do_not_matter(value: Any) -> None:
    assert digest(written_differently(value)) == digest(value)


@given(VALUES)
def test_a_content_read_back_from_json_has_the_same_digest(value: Any) -> None:
    assert digest(json.loads(json.dumps(value))) == digest(value)


@given(st.lists(NUMBERS | TEXT, min_size=1, max_size=4), st.lists(NUMBERS | TEXT, min_size=1, max_size=4))
def test_lists_that_read_alike_with_other_commas_never_meet(left: list[Any], right: list[Any]) -> None:
    assume(not is_same(left, right))
    assert digest(left) != digest(right)


def test_one_and_a_half_is_not_one_and_five() -> None:
    assert len({digest(value) for value in ([1.5], [1, 5], ["1.5"], ["1,5"], "[1.5]", [[1], 5], [15])}) == 7


@given(CELLS, CELLS)
def test_cells_share_a_key_exactly_when_their_contents_are_the_same(left: Cell, right: Cell) -> None:
    assert (left.key == right.key) is is_same(left.model_dump(), right.model_dump())


@given(CELLS, TEXT)
def test_the_display_name_does_not_matter(cell: Cell, name: str) -> None:
    assert cell.model_copy(update={"model": name}).key == cell.key


@given(CELLS)
def test_the_order_of_options_does_not_matter(cell: Cell) -> None:
    assert cell.model_copy(update={"options": dict(reversed(cell.options.items()))}).key == cell.key


@given(CELLS)
def test_a_cell_read_back_from_disk_keeps_its_key(cell: Cell) -> None:
    assert Cell.model_validate_json(cell.model_dump_json()).key == cell.key


@given(CELLS, CELLS)
def test_cells_of_one_workload_differ_in_backend_options_and_cache_only(left: Cell, right: Cell) -> None:
    own = {"model", "backend", "options", "compile_cache"}
    same = is_same(left.model_dump(exclude=own), right.model_dump(exclude=own))
    assert (left.workload_key == right.workload_key) is same


def test_an_axis_that_came_later_leaves_the_keys_of_cells_that_do_not_use_it() -> None:
    stored = {"model": "m", "checkpoint": "a==1", "threads": 1, "backend": "eager"}
    cell = Cell(**stored)
    before = {name: value for name, value in cell.model_dump(mode="json").items() if name not in ("model", *LATER)}
    assert cell.key == digest(before)
    assert Cell(**stored, audio_seconds=5).key != cell.key
    assert Cell(**stored, audio_seconds=5).workload_key != cell.workload_key
