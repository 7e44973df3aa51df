"""Shards hold each group once and whole; what failed is told by the last result that compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store.factories import a_cell, a_failure, a_result, some_hashes

from harness.model import Group, HarnessError, Matrix, PlannedCell, Protocol, Result, Status
from harness.selection import Shard, failed

HERE = "7" * 64


def a_matrix(groups: int) -> Matrix:
    """Groups of two cells each."""
    cells = [[a_cell(batch_size=size, backend=name) for name in ("eager", "sdpa")] for size in range(1, groups + 1)]
    return Matrix(
        "small",
        "",
        tuple(Group(pair[0].workload_key, tuple(PlannedCell(cell) for cell in pair)) for pair in cells),
        Protocol(),
    )


@given(st.integers(0, 12), st.integers(1, 15))
def test_every_group_is_whole_in_exactly_one_shard_and_sizes_differ_by_one_at_most(groups: int, count: int) -> None:
    matrix = a_matrix(groups)
    shards = [Shard(index, count).of(matrix) for index in range(1, count + 1)]
    found = [group for shard in shards for group in shard.groups]
    assert sorted(found, key=matrix.groups.index) == list(matrix.groups)
    sizes = [len(shard.groups) for shard in shards]
    assert max(sizes) - min(sizes) <= 1


def test_neighbours_go_to_different_shards() -> None:
    matrix = a_matrix(4)
    assert Shard.parse("1/2").of(matrix).groups == (matrix.groups[0], matrix.groups[2])
    assert Shard.parse(" 2/2 ").of(matrix).groups == (matrix.groups[1], matrix.groups[3])


@pytest.mark.parametrize("text", ["", "2", "0/5", "6/5", "1/0", "-1/5", "1/5/2", "1.0/5", "a/b", "²/5", "1/5\n2"])
def test_what_is_no_shard_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(HarnessError, match="write it like 2/5"):
        Shard.parse(text)


def sizes_of_failed(*history: Result) -> list[int]:
    return [planned.cell.batch_size for planned in failed(a_matrix(3), history, HERE).cells]


def test_only_cells_that_did_not_end_well_are_kept() -> None:
    second, third = (a_cell(batch_size=size) for size in (2, 3))
    assert sizes_of_failed(a_result(), a_failure(second), a_result(third, Status.UNSUPPORTED)) == [2]
    assert sizes_of_failed() == []


def test_the_last_result_decides() -> None:
    assert sizes_of_failed(a_failure(), a_result()) == []
    assert sizes_of_failed(a_result(), a_failure()) == [1]


@pytest.mark.parametrize("changed", ["host_hash", "protocol_hash"])
def test_failures_elsewhere_or_under_another_protocol_are_not_ours(changed: str) -> None:
    assert sizes_of_failed(a_failure(hashes=some_hashes(a_cell(), **{changed: "0" * 64}))) == []


def test_a_failure_of_another_stack_is_tried_again() -> None:
    assert sizes_of_failed(a_failure(hashes=some_hashes(a_cell(), stack_hash="0" * 64))) == [1]
