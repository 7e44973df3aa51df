"""--where means what --only means: each expression, by Python for a cell and by SQL for its stored result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store.factories import a_cell, a_result

from harness.expressions import NAMES, compile_filter
from harness.model import Backend, HarnessError, InputSpec, Option, Stack, Status
from harness.query import FIELDS, Question, ask
from harness.report.export import COLUMNS
from harness.store import ResultStore

STACK = Stack(name="small", lock="small:small.lock", packages=("small",))
FEW = settings(max_examples=25, deadline=None)
OPTIONS = ("level", "fast", "mode", "share")
BACKENDS = [
    Backend("eager", STACK, "m:R", ""),
    Backend("ort", STACK, "m:R", "", options=tuple(Option(name, str, None, "") for name in OPTIONS)),
]
CELLS = [
    a_cell(batch_size=1),
    a_cell(batch_size=8, sequence_length=64, padding=0.25, inputs=InputSpec(seed=3)),
    a_cell(backend="ort", options={"level": 2, "fast": True, "mode": 'it\'s "odd"; --', "share": 0.5}),
    a_cell(backend="ort", options={"level": None, "fast": False, "mode": None, "share": 1}, padding="sampled"),
    a_cell(backend="ort", options={"level": "2", "fast": None, "mode": "2", "share": 2.0}, image_size=224),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = ResultStore.open(folder)
    for cell in CELLS:
        store.add(a_result(cell))
    store.finish_runs()
    return folder


def found(root: Path, where: str) -> list[str]:
    with ask(root, Question(where)) as answer:
        return [row["key"] for row in answer.rows]


def by_only(where: str) -> list[str]:
    holds = compile_filter(where, BACKENDS)
    return [cell.key for cell in CELLS if holds(cell)]


@pytest.mark.parametrize(
    "where",
    [
        "backend == 'ort'",
        "backend in ('eager', 'ort') and batch_size >= 8",
        "not (backend == 'eager') or sequence_length < 100",
        "1 < batch_size <= 8 <= sequence_length",
        "batch_size * sequence_length - 1 > 500",
        "-batch_size // 3 == -3",
        "batch_size + 0.5 == 8.5",
        "'ag' in backend",
        "'xy' not in backend",
        "input_seed == 3",
        "image_size == None",
        "image_size != None and image_size > 100",
        "image_size < 1000",
        "padding == 'none'",
        "padding != 'none'",
        "padding == 0.25",
        "padding in ('sampled', 0.25)",
        "backend in ()",
        "backend not in ['eager']",
        "batch_size == '8'",
        "batch_size != '8'",
        "backend == None",
        "None == None",
        "True",
        "not False",
        "batch_size == True",
        "ort.level == 2",
        "ort.level == '2'",
        "ort.level != 2",
        "ort.level == None",
        "ort.level != None",
        "ort.level in (2, '2')",
        "ort.fast == True",
        "ort.fast == 1",
        "ort.fast != False",
        "ort.fast in (True, None)",
        "ort.mode == 'it\\'s \"odd\"; --'",
        "ort.mode == ort.level",
        "ort.share > 0.75",
        "ort.share == 1",
        "ort.share == True",
        "not ort.share > 0.75",
        "backend == ort.mode",
        "model == '\\'; DROP TABLE stored; --' or True",
    ],
)
def test_both_keep_the_same_cells(root: Path, where: str) -> None:
    assert found(root, where) == by_only(where)


ATOMS = st.sampled_from(
    [
        *(
            "batch_size > 1",
            "backend == 'ort'",
            "padding == 'none'",
            "image_size < 500",
            "ort.level == 2",
            "ort.share > 0.7",
        ),
        *("ort.fast == True", "input_seed in (0, 3)", "ort.mode != None", "sequence_length == 64"),
    ]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=6,
)


@FEW
@given(EXPRESSIONS)
def test_so_do_expressions_put_together_of_others(root: Path, where: str) -> None:
    assert found(root, where) == by_only(where)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("batch_size > '8'", "column 1: a number is neither more nor less than text"),
        ("batch_size", "must be true or false"),
        ("backend and True", "column 1: text stands where something must be true or false"),
        ("backend * 2 == 'a'", "text stands where a number is calculated with"),
        ("8 in batch_size", "`in` takes a list"),
        ("(1, 2) == batch_size", "a list stands only after `in`"),
        ("thruput > 1", "did you mean 'throughput'?"),
        ("ort.levle == 1", "did you mean 'level'?"),
        ("batch_size ==", "invalid syntax"),
        ("", "--where ''"),
        ("__import__('os').system('true')", "is not offered"),
        ("backend == 'a'; DROP TABLE stored", "invalid syntax"),
        ("backend.__class__ == 1", "only a backend has options"),
    ],
)
def test_what_is_no_question_is_refused_with_its_column(root: Path, where: str, said: str) -> None:
    with pytest.raises(HarnessError) as refusal:
        found(root, where)
    assert "--where" in str(refusal.value)
    assert said in str(refusal.value)


def test_every_axis_of_a_matrix_can_be_asked_for_and_every_stored_column() -> None:
    assert set(NAMES) <= set(FIELDS)
    assert set(COLUMNS) - set(FIELDS) == {"label", "workload_key", "origin", "lacks"}


@FEW
@given(st.text(max_size=10), st.text(max_size=10))
def test_text_never_becomes_sql(root: Path, one: str, other: str) -> None:
    assert found(root, f"{one!r} == {other!r}") == ([cell.key for cell in CELLS] if one == other else [])


def test_numbers_of_results_can_be_asked_for_too(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add(a_result(a_cell(batch_size=2), Status.FAILED))
    store.add(a_result())
    store.finish_runs()
    assert found(tmp_path, "status != 'ok' and throughput == None and launches == 0") == [a_cell(batch_size=2).key]
