"""The rules of combining: axes, a backend's options, exclude, include."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_backends import CONTROL, EAGER, ORT, identify

from harness.matrix import expand
from harness.model import Cell, HarnessError, Matrix
from harness.plugins import Plugins

Expand = Callable[[str], Matrix]
Refusal = Callable[[str], str]

HEAD = "defaults: {model: package:minilm}\n"


def cells(matrix: Matrix) -> list[Cell]:
    return [planned.cell for planned in matrix.cells]


def rows(matrix: Matrix, *names: str) -> list[tuple[object, ...]]:
    """The cells' values of these axes; an option where a cell's backend has no such is absent, as "-"."""
    return [tuple(getattr(cell, name, cell.options.get(name, "-")) for name in names) for cell in cells(matrix)]


def test_the_last_axis_varies_fastest(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{backend: [eager], batch_size: [8, 1], sequence_length: [32, 16]}}\n")
    assert rows(matrix, "batch_size", "sequence_length") == [(8, 32), (8, 16), (1, 32), (1, 16)]


def test_a_backend_that_is_left_out_means_every_installed_one(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{batch_size: [1, 8]}}\n")
    assert rows(matrix, "batch_size", "backend") == [(1, "eager"), (1, "onnxruntime"), (8, "eager"), (8, "onnxruntime")]


def test_a_default_backend_takes_the_place_of_every_installed_one(expand_text: Expand) -> None:
    matrix = expand_text("defaults: {model: package:minilm, backend: onnxruntime}\nmatrix: {batch_size: [1, 8]}\n")
    assert rows(matrix, "batch_size", "backend") == [(1, "onnxruntime"), (8, "onnxruntime")]


def test_a_backend_made_to_check_others_is_taken_only_where_it_is_named(
    make_plugins: Callable[..., Plugins], write: Callable[[str], Path]
) -> None:
    plugins = make_plugins(EAGER, CONTROL)

    def backends(rest: str) -> list[str]:
        return [planned.cell.backend for planned in expand(write(f"{HEAD}{rest}"), plugins, identify).cells]

    assert backends("matrix: {batch_size: [1]}\n") == ["eager"]
    assert backends("matrix: {batch_size: [1], include: [{batch_size: 8}]}\n") == ["eager", "eager"]
    assert backends("matrix: {batch_size: [1], include: [{backend: control}]}\n") == ["eager", "control"]
    assert backends("matrix: {backend: [control, eager]}\n") == ["control", "eager"]


def test_a_matrix_without_a_backend_is_refused_where_all_must_be_named(
    make_plugins: Callable[..., Plugins], write: Callable[[str], Path]
) -> None:
    with pytest.raises(HarnessError, match="names no backend, and those installed must be named"):
        expand(write(f"{HEAD}matrix: {{batch_size: [1]}}\n"), make_plugins(CONTROL), identify)


def test_options_are_axes_of_their_own_backends_cells(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{onnxruntime: {{optimization: [O2, O1], level: [1, 2]}}}}\n")
    assert rows(matrix, "backend", "optimization", "level") == [
        ("eager", "-", "-"),
        ("onnxruntime", "O2", 1),
        ("onnxruntime", "O2", 2),
        ("onnxruntime", "O1", 1),
        ("onnxruntime", "O1", 2),
    ]


def test_option_axes_keep_their_written_place_among_the_others(expand_text: Expand) -> None:
    head = f"{HEAD}matrix: {{backend: [onnxruntime], "
    before = expand_text(head + "onnxruntime: {level: [1, 2]}, compile_cache: [cold, warm]}\n")
    assert rows(before, "level", "compile_cache") == [(1, "cold"), (1, "warm"), (2, "cold"), (2, "warm")]
    after = expand_text(head + "compile_cache: [cold, warm], onnxruntime: {level: [1, 2]}}\n")
    assert rows(after, "level", "compile_cache") == [(1, "cold"), (2, "cold"), (1, "warm"), (2, "warm")]


def test_the_backend_axis_keeps_its_written_place_too(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{compile_cache: [cold, warm], backend: [onnxruntime, eager]}}\n")
    expected = [("cold", "onnxruntime"), ("cold", "eager"), ("warm", "onnxruntime"), ("warm", "eager")]
    assert rows(matrix, "compile_cache", "backend") == expected


def test_null_asks_for_the_frameworks_own_choice(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{backend: [onnxruntime], onnxruntime: {{optimization: [null, O1]}}}}\n")
    assert rows(matrix, "optimization") == [(None,), ("O1",)]


def test_options_of_a_backend_without_cells_are_refused(refusal: Refusal) -> None:
    message = refusal(f"{HEAD}matrix:\n  backend: [eager]\n  onnxruntime: {{level: [1]}}\n")
    assert "matrix.onnxruntime.level[0] is an option of onnxruntime, but the backends here are eager" in message


# --- exclude --------------------------------------------------------------------------------------------------------


def test_exclude_removes_what_agrees_with_all_it_names(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{batch_size: [1, 8], backend: [eager, onnxruntime], exclude: [{{batch_size: 8, backend: eager}}]}}\n"
    assert rows(expand_text(text), "batch_size", "backend") == [(1, "eager"), (1, "onnxruntime"), (8, "onnxruntime")]


def test_exclude_by_an_option_leaves_other_backends_alone(expand_text: Expand) -> None:
    text = (
        f"{HEAD}matrix: {{onnxruntime: {{optimization: [O1, O2]}}, exclude: [{{onnxruntime: {{optimization: O1}}}}]}}\n"
    )
    assert rows(expand_text(text), "backend", "optimization") == [("eager", "-"), ("onnxruntime", "O2")]


def test_excludes_may_overlap(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{batch_size: [1, 8], exclude: [{{batch_size: 8}}, {{batch_size: 8, backend: eager}}]}}\n"
    assert rows(expand_text(text), "batch_size", "backend") == [(1, "eager"), (1, "onnxruntime")]


def test_an_exclude_that_matches_nothing_is_refused(refusal: Refusal) -> None:
    message = refusal(f"{HEAD}matrix:\n  batch_size: [1]\n  exclude:\n    - batch_size: 8\n")
    assert message == "m.yaml:5:7: matrix.exclude[0] matches no combination; mend it, or remove it"


def test_an_exclude_by_what_is_no_axis_is_refused(refusal: Refusal) -> None:
    message = refusal("defaults: {model: package:minilm, dtype: float16}\nmatrix: {exclude: [{dtype: float16}]}\n")
    assert "matrix.exclude[0].dtype is no axis of this matrix" in message


def test_excluding_everything_leaves_no_cells_which_is_refused(refusal: Refusal) -> None:
    message = refusal(f"{HEAD}matrix: {{batch_size: [8], exclude: [{{batch_size: 8}}]}}\n")
    assert message == "m.yaml:2:1: matrix has no cells: every combination is excluded"


# --- include --------------------------------------------------------------------------------------------------------


def test_an_include_without_axis_keys_is_added_to_every_combination(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{batch_size: [1, 8], include: [{{dtype: float16}}]}}\n")
    assert set(rows(matrix, "dtype")) == {("float16",)}
    assert len(cells(matrix)) == 4


def test_an_include_is_added_where_it_contradicts_no_axis(expand_text: Expand) -> None:
    matrix = expand_text(
        f"{HEAD}matrix: {{batch_size: [1, 8], backend: [eager], include: [{{batch_size: 8, dtype: float16}}]}}\n"
    )
    assert rows(matrix, "batch_size", "dtype") == [(1, "float32"), (8, "float16")]


def test_an_include_overwrites_defaults_and_what_earlier_entries_added(expand_text: Expand) -> None:
    matrix = expand_text("""\
        defaults: {model: package:minilm, dtype: float16}
        matrix:
          batch_size: [1, 8]
          backend: [eager]
          include:
            - dtype: bfloat16
            - {dtype: float32, batch_size: 8}
        """)
    assert rows(matrix, "batch_size", "dtype") == [(1, "bfloat16"), (8, "float32")]


def test_an_include_that_contradicts_every_combination_is_a_combination_of_its_own(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{batch_size: [1], backend: [eager], include: [{{batch_size: 64, backend: onnxruntime}}]}}\n"
    assert rows(expand_text(text), "batch_size", "backend") == [(1, "eager"), (64, "onnxruntime")]


def test_a_combination_of_its_own_without_backend_is_made_for_each_of_the_matrix(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{batch_size: [1], backend: [onnxruntime, eager], include: [{{batch_size: 64}}]}}\n"
    assert rows(expand_text(text), "batch_size", "backend")[2:] == [(64, "onnxruntime"), (64, "eager")]


def test_nothing_is_added_to_a_combination_of_its_own(expand_text: Expand) -> None:
    matrix = expand_text(f"""\
{HEAD}
matrix:
  batch_size: [1]
  backend: [eager]
  include:
    - batch_size: 64
    - {{batch_size: 64, dtype: float16}}
""")
    assert rows(matrix, "batch_size", "dtype") == [(1, "float32"), (64, "float32"), (64, "float16")]


def test_an_include_by_options_is_for_that_backend(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{include: [{{onnxruntime: {{optimization: O3}}, dtype: float16}}]}}\n")
    assert rows(matrix, "backend", "optimization", "dtype") == [
        ("eager", "-", "float32"),
        ("onnxruntime", "O3", "float16"),
    ]


def test_an_include_of_an_option_value_that_is_not_on_its_axis_is_a_new_combination(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{onnxruntime: {{optimization: [O1]}}, include: [{{onnxruntime: {{optimization: O3}}}}]}}\n"
    assert rows(expand_text(text), "backend", "optimization") == [
        ("eager", "-"),
        ("onnxruntime", "O1"),
        ("onnxruntime", "O3"),
    ]


def test_includes_come_after_excludes(expand_text: Expand) -> None:
    text = f"{HEAD}matrix: {{batch_size: [1, 8], backend: [eager], exclude: [{{batch_size: 8}}], include: [{{batch_size: 8}}]}}\n"
    assert rows(expand_text(text), "batch_size") == [(1,), (8,)]


@pytest.mark.parametrize(
    "entry",
    ["{backend: eager, onnxruntime: {level: 1}}", "{onnxruntime: {level: 1}, other: {level: 1}}"],
)
def test_an_entry_for_two_backends_is_refused(
    make_plugins: Callable[..., Plugins], write: Callable, entry: str
) -> None:
    plugins = make_plugins(EAGER, ORT, type(ORT)("other", ORT.stack, ORT.runner, "", ORT.options))
    with pytest.raises(
        Exception, match=r"matrix.include\[0\] is for the backends .* at once; write one entry for each"
    ):
        expand(write(f"{HEAD}matrix: {{include: [{entry}]}}\n"), plugins, identify)


def test_a_combination_of_its_own_needs_a_model(refusal: Refusal) -> None:
    message = refusal("matrix:\n  model: [package:minilm]\n  batch_size: [1]\n  include:\n    - batch_size: 8\n")
    assert message.startswith("m.yaml:5:7: matrix.include[0] makes a combination without a model")


# --- size -----------------------------------------------------------------------------------------------------------


def test_a_matrix_of_absurd_size_is_refused_before_it_is_built(refusal: Refusal) -> None:
    many = ", ".join(str(n) for n in range(1, 1001))
    message = refusal(f"{HEAD}matrix: {{batch_size: [{many}], sequence_length: [{many}]}}\n")
    assert message == "m.yaml:2:1: matrix has 2000000 combinations, over the limit of 100000; shorten its axes"
