"""From combinations to cells and groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_backends import EAGER, ORT, SmallIdentity, backend, identify

from harness.matrix import expand
from harness.model import Cell, HarnessError, InputSpec, Matrix, PlannedCell, Protocol, Status
from harness.plugins import Plugins

Expand = Callable[[str], Matrix]
Write = Callable[[str], Path]
MakePlugins = Callable[..., Plugins]

HEAD = "defaults: {model: package:minilm}\n"


def test_a_cell_has_all_that_the_file_says(expand_text: Expand) -> None:
    matrix = expand_text("""\
        defaults: {model: package:minilm, task: fill-mask, operation: forward, compile_cache: warm, threads: 3}
        matrix:
          backend: [onnxruntime]
          batch_size: [4]
          sequence_length: [64]
          padding: [sampled]
          dtype: [bfloat16]
          device: [cuda]
          input_seed: [7]
          onnxruntime: {optimization: [O2], scale: [2]}
        """)
    assert [planned.cell for planned in matrix.cells] == [
        Cell(
            model="package:minilm",
            checkpoint="package:minilm==1.0",
            task="fill-mask",
            batch_size=4,
            sequence_length=64,
            padding="sampled",
            dtype="bfloat16",
            device="cuda",
            threads=3,
            compile_cache="warm",
            inputs=InputSpec(seed=7),
            backend="onnxruntime",
            options={"optimization": "O2", "level": 2, "scale": 2.0, "fold": True},
        )
    ]


def test_only_operations_that_make_tokens_have_a_number_of_them(expand_text: Expand) -> None:
    """So that one matrix can have all; what would be two cells of one prefill is one."""
    matrix = expand_text(f"""\
        {HEAD.strip()}
        matrix: {{backend: [eager], operation: [forward, prefill, decode, generate], new_tokens: [8, 16]}}
        """)
    assert [(planned.cell.operation, planned.cell.new_tokens) for planned in matrix.cells] == [
        ("forward", None),
        ("prefill", None),
        ("decode", 8),
        ("decode", 16),
        ("generate", 8),
        ("generate", 16),
    ]


def test_tokens_are_32_where_nobody_names_a_number_and_the_likeliest_of_one_beam(expand_text: Expand) -> None:
    (planned,) = expand_text(f"{HEAD}matrix: {{backend: [eager], operation: [generate]}}\n").cells
    assert (planned.cell.new_tokens, planned.cell.do_sample, planned.cell.num_beams) == (32, False, 1)


def test_no_number_of_tokens_that_was_asked_for_is_not_taken_for_the_default(expand_text: Expand) -> None:
    (planned,) = expand_text(f"{HEAD}matrix: {{backend: [eager], operation: [decode], new_tokens: [null]}}\n").cells
    assert planned.cell.new_tokens is None


def test_a_cell_holds_every_declared_option_with_its_default(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{backend: [onnxruntime]}}\n")
    assert matrix.cells[0].cell.options == {"optimization": None, "level": 2, "scale": 1.0, "fold": True}


def test_defaults_may_set_a_backends_options(expand_text: Expand) -> None:
    matrix = expand_text("defaults: {model: package:minilm, onnxruntime: {fold: false}}\nmatrix: {}\n")
    assert [planned.cell.options.get("fold") for planned in matrix.cells] == [None, False]


def test_threads_are_the_cores_this_process_may_use(expand_text: Expand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
    assert expand_text(f"{HEAD}matrix: {{}}\n").cells[0].cell.threads == 3


def test_a_matrix_without_a_name_is_called_after_its_file(expand_text: Expand) -> None:
    matrix = expand_text(f"{HEAD}matrix: {{}}\n")
    assert (matrix.name, matrix.description, matrix.protocol) == ("m", "", Protocol())


def test_name_description_and_protocol_come_from_the_file(expand_text: Expand) -> None:
    matrix = expand_text(f"""\
{HEAD}
name: two
description: "two backends "
matrix: {{}}
protocol: {{blocks: 5, round_seconds: 2, baseline: onnxruntime}}
""")
    assert (matrix.name, matrix.description) == ("two", "two backends")
    assert matrix.protocol == Protocol(blocks=5, round_seconds=2.0, baseline="onnxruntime")


def test_a_default_reference_that_is_not_installed_is_no_mistake_in_the_file(
    make_plugins: MakePlugins, write: Write
) -> None:
    matrix = expand(write(f"{HEAD}matrix: {{}}\n"), make_plugins(ORT), identify)
    assert matrix.protocol.reference == "eager"


def test_cells_are_grouped_by_workload_in_order_of_first_appearance(expand_text: Expand) -> None:
    matrix = expand_text(
        f"{HEAD}matrix: {{backend: [eager, onnxruntime], batch_size: [8, 1], compile_cache: [cold, warm]}}\n"
    )
    seen = [[(c.cell.batch_size, c.cell.backend, c.cell.compile_cache) for c in group.cells] for group in matrix.groups]
    assert seen == [
        [(8, "eager", "cold"), (8, "eager", "warm"), (8, "onnxruntime", "cold"), (8, "onnxruntime", "warm")],
        [(1, "eager", "cold"), (1, "eager", "warm"), (1, "onnxruntime", "cold"), (1, "onnxruntime", "warm")],
    ]
    assert [group.workload_key for group in matrix.groups] == [
        group.cells[0].cell.workload_key for group in matrix.groups
    ]


def test_cells_of_one_key_are_one_cell(expand_text: Expand) -> None:
    matrix = expand_text("""\
        matrix:
          backend: [eager, eager]
          model: [package:minilm, package:minilm==1.0]
          batch_size: [1, 1]
        """)
    assert [planned.cell.model for planned in matrix.cells] == ["package:minilm"]


def test_each_model_is_identified_once(plugins: Plugins, write: Write) -> None:
    asked = []

    def counting(source: str) -> SmallIdentity:
        asked.append(source)
        return identify(source)

    expand(write("matrix: {model: [package:minilm, random:bert], batch_size: [1, 2, 4]}\n"), plugins, counting)
    assert asked == ["package:minilm", "random:bert"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("matrix:\n  model: [package:minilm, path:no]\n", "m.yaml:2:27: matrix.model[1]"),
        ("defaults:\n  model: path:no\nmatrix: {}\n", "m.yaml:2:3: defaults.model"),
        ("matrix:\n  include:\n    - model: path:no\n", "m.yaml:3:7: matrix.include[0].model"),
    ],
)
def test_a_bad_model_source_is_given_its_place_in_the_file(
    refusal: Callable[[str], str], text: str, place: str
) -> None:
    assert refusal(text) == f"{place} cannot be used: no model 'path:no' here"


def test_a_matrix_without_a_model_is_refused(refusal: Callable[[str], str]) -> None:
    message = refusal("matrix: {batch_size: [1]}\n")
    assert message == "m.yaml:1:1: matrix makes a combination without a model; name one there, or under 'defaults'"


def test_no_installed_backend_is_refused(make_plugins: MakePlugins, write: Write) -> None:
    with pytest.raises(HarnessError, match="no backend is installed"):
        expand(write(f"{HEAD}matrix: {{}}\n"), make_plugins(), identify)


# --- what will not run ----------------------------------------------------------------------------------------------


def refuses_batches_of_two(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    return f"no batch of 2 for {model_config['model_type']}" if cell.batch_size == 2 else None


def test_what_a_backend_does_not_support_is_planned_with_its_reason(make_plugins: MakePlugins, write: Write) -> None:
    plugins = make_plugins(backend("eager", supports=refuses_batches_of_two))
    matrix = expand(write(f"{HEAD}matrix: {{batch_size: [1, 2]}}\n"), plugins, identify)
    assert [(c.status, c.reason) for c in matrix.cells] == [
        (None, None),
        (Status.UNSUPPORTED, "no batch of 2 for bert"),
    ]


def test_a_supports_that_raises_fails_its_cells_alone_and_names_its_plugin(
    make_plugins: MakePlugins, write: Write
) -> None:
    def broken(*_: object) -> str | None:
        raise KeyError("hidden_size")

    plugins = make_plugins(backend("eager", supports=broken), backend("other"))
    bad, good = expand(write(f"{HEAD}matrix: {{}}\n"), plugins, identify).cells
    assert (bad.status, good.status) == (Status.FAILED, None)
    assert str(bad.reason).startswith("plugin 'small_plugin': supports() of the backend 'eager' raised KeyError")


def test_a_supports_that_answers_neither_text_nor_none_names_its_plugin(
    make_plugins: MakePlugins, write: Write
) -> None:
    plugins = make_plugins(backend("eager", supports=lambda *_: True))
    (bad,) = expand(write(f"{HEAD}matrix: {{}}\n"), plugins, identify).cells
    assert "returned True, not text or None" in str(bad.reason)


def test_what_a_plugin_drops_is_planned_as_skipped(make_plugins: MakePlugins, write: Write) -> None:
    def harness_select_cells(cells: Sequence[PlannedCell]) -> Sequence[PlannedCell]:
        return [planned for planned in cells if planned.cell.batch_size == 1]

    plugins = make_plugins(EAGER, harness_select_cells=harness_select_cells)
    matrix = expand(write(f"{HEAD}matrix: {{batch_size: [8, 1]}}\n"), plugins, identify)
    assert [(c.cell.batch_size, c.status, c.reason) for c in matrix.cells] == [
        (1, None, None),
        (8, Status.SKIPPED, "dropped by plugin 'small_plugin'"),
    ]


def test_a_plugin_may_reorder_workloads(make_plugins: MakePlugins, write: Write) -> None:
    plugins = make_plugins(EAGER, harness_select_cells=lambda cells: cells[::-1])
    matrix = expand(write(f"{HEAD}matrix: {{batch_size: [1, 2, 4]}}\n"), plugins, identify)
    assert [group.cells[0].cell.batch_size for group in matrix.groups] == [4, 2, 1]
