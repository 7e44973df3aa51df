"""--only: what holds of which cell, and what is refused before any cell is judged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.expressions import NAMES, compile_filter
from harness.model import Backend, Cell, HarnessError, InputSpec, Option, Stack

STACK = Stack(name="small", lock="small:small.lock", packages=("small",))
BACKENDS = [
    Backend("eager", STACK, "small.runner:Runner", ""),
    Backend(
        "onnxruntime",
        STACK,
        "small.runner:Runner",
        "",
        options=(
            Option("optimization", str, None, ""),
            Option("level", int, None, ""),
            Option("format", str, "onnx", ""),
        ),
    ),
]


def cell(**fields: Any) -> Cell:
    defaults = {"model": "package:minilm", "checkpoint": "package:minilm==1.0", "threads": 2, "backend": "eager"}
    return Cell(**{**defaults, **fields})


EAGER = cell(batch_size=8, sequence_length=64, inputs=InputSpec(seed=3))
ORT = cell(backend="onnxruntime", options={"optimization": "O1", "level": 2, "format": "onnx"})


def refused(text: str) -> str:
    with pytest.raises(HarnessError) as error:
        compile_filter(text, BACKENDS)
    return str(error.value)


def fails(text: str, judged: Cell = EAGER) -> str:
    keep = compile_filter(text, BACKENDS)
    with pytest.raises(HarnessError) as error:
        keep(judged)
    return str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "backend in ('eager', 'onnxruntime') and batch_size == 8",
        "backend in ['eager']",
        "  batch_size > 1  ",
        "not (device == 'cuda') and dtype != 'float16'",
        "1 < batch_size <= 8 <= sequence_length",
        "batch_size * sequence_length // 2 == 256 and batch_size + 1 == 9 and batch_size - 9 == -1",
        "'minilm' in model and task == 'feature-extraction' and operation == 'forward'",
        "threads == 2 and compile_cache == 'cold' and input_seed == 3",
        "True or batch_size == 'never looked at'",
        "onnxruntime.optimization == None",
        "onnxruntime.optimization != 'O1'",
        "(\n backend == 'eager'\n)",
    ],
)
def test_what_holds_of_a_cell(text: str) -> None:
    assert compile_filter(text, BACKENDS)(EAGER) is True


@pytest.mark.parametrize(
    "text",
    [
        "batch_size == 1",
        "backend not in ('eager',)",
        "False",
        "onnxruntime.optimization == 'O1'",
        "onnxruntime.level > 1",
        "onnxruntime.level <= 1",
    ],
)
def test_what_does_not_hold_of_a_cell(text: str) -> None:
    assert compile_filter(text, BACKENDS)(EAGER) is False


def test_a_backends_options_are_seen_under_its_name() -> None:
    text = "onnxruntime.optimization in ('O1', 'O2') and onnxruntime.level > 1 and onnxruntime.format == 'onnx'"
    assert compile_filter(text, BACKENDS)(ORT) is True


def test_every_axis_can_be_named() -> None:
    for name in NAMES:
        assert compile_filter(f"{name} == {name}")(ORT) is True


def test_without_backends_no_options_can_be_named() -> None:
    with pytest.raises(HarnessError, match=r"column 1: only a backend has options \(backends: none\)"):
        compile_filter("onnxruntime.level == 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--only '': invalid syntax; write it like backend == 'eager' and batch_size == 8"),
        ("batch_size = 1", "invalid syntax"),
        ("batch_size ==", "invalid syntax"),
        ("batch_size == 08", "leading zeros"),
        ("batch_size == 1; backend", "column 16: invalid syntax"),
        ("(batch_size", "'(' was never closed"),
        ("batch_size == 1\0", "null bytes"),
        ("bach_size == 1", "column 1: unknown name 'bach_size'; did you mean 'batch_size'?"),
        ("batch_size == 1 and bakend == 'x'", "column 21: unknown name 'bakend'; did you mean 'backend'?"),
        ("true", "unknown name 'true'; did you mean 'True'?"),
        ("dtype == float32", "column 10: unknown name 'float32' (text needs quotes;"),
        ("backend == eager", "column 12: eager is a backend: write backend == 'eager', or eager.OPTION"),
        ("onnxruntme.level == 1", "column 1: only a backend has options; did you mean 'onnxruntime'?"),
        ("onnxruntime.levl == 1", "column 1: onnxruntime has no option 'levl'; did you mean 'level'?"),
        ("eager.level == 1", "column 1: eager has no option 'level' (options: none)"),
    ],
)
def test_a_mistake_is_refused_with_its_column_and_the_nearest_spelling(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "backend.upper() == 'EAGER'",
        "backend.__class__",
        "onnxruntime.level.__class__",
        "''.__class__.__mro__",
        "'{0.__class__}'.format(1)",
        "backend[0] == 'e'",
        "[x for x in (1,)]",
        "(lambda: True)()",
        "{'a': 1}",
        "f'{backend}' == 'eager'",
        "'%s' % backend == 'eager'",
        "2 ** 9999 > 1",
        "1 << 99",
        "batch_size if True else 1",
        "(x := 1) == 1",
        "batch_size / 2 == 4",
        "batch_size is None",
        "b'x' == model",
        "... == 1",
        "1j == 1",
        "print",
        "*model",
    ],
)
def test_nothing_that_could_reach_beyond_the_cell_is_offered(text: str) -> None:
    assert refused(text).startswith("--only ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch_size", "8"),
        ("'eager'", "'eager'"),
        ("None", "None"),
        ("backend and model", "'package:minilm'"),
        ("()", "()"),
    ],
)
def test_a_result_that_is_neither_true_nor_false_is_refused(text: str, value: str) -> None:
    assert f"gives {value} for eager; it must be true or false" in fails(text)


@pytest.mark.parametrize(
    "text",
    [
        "batch_size < '8'",
        "batch_size in 8",
        "model + 1 == 2",
        "batch_size // 0 == 1",
        "model * 9999999 == model",
        "1 in model",
    ],
)
def test_values_that_do_not_fit_the_operator_are_refused(text: str) -> None:
    assert "cannot be evaluated for eager: " in fails(text)


def test_an_expression_nested_without_end_is_refused() -> None:
    assert refused("(" * 500 + "True" + ")" * 500).startswith("--only ")
    assert "cannot be read" in refused("not " * 20000 + "True")


@given(st.text(max_size=40))
def test_whatever_the_text_it_is_compiled_or_refused(text: str) -> None:
    try:
        keep = compile_filter(text, BACKENDS)
        assert isinstance(keep(EAGER), bool)
    except HarnessError:
        pass
