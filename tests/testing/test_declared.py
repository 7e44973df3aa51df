"""What is seen of a plugin without running its backend: real packages on a path of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.model import Backend, Cell, Option, Stack
from harness.testing.declared import declared, loaded

CELL = Cell(model="m", checkpoint="c", threads=1, backend="mine")
MINE = Backend(
    "mine",
    Stack("mine", "plug_mine:mine.lock", ("plug_mine",)),
    runner="plug_mine.runner:MineRunner",
    description="a test's",
    options=(Option("mode", str, None, "of no consequence"),),
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The import package `plug_mine`, with a lock, a plugin, and a runner that nobody may import."""
    folder = tmp_path / "plug_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "plugin.py").write_text("import json\n")
    (folder / "mine.lock").write_text("# pins\nnumpy==2.4.6  # with its reason\nwonder-framework==1.0\n")
    (folder / "runner.py").write_text("raise SystemExit('imported')\nclass MineRunner: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


@pytest.mark.usefixtures("package")
def test_a_declaration_whose_files_are_there_has_no_faults() -> None:
    assert declared(MINE, CELL).faults == ()


def raising(*_: object) -> str | None:
    raise KeyError("model_type")


def exiting(*_: object) -> str | None:
    raise SystemExit(5)


def moody() -> Callable[..., str | None]:
    answers = iter(["no", None])
    return lambda *_: next(answers)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"description": " "}, "it has no description"),
        ({"options": (Option("mode", str, None, ""),)}, "the options mode have no help"),
        ({"runner": "plug_mine.runer:MineRunner"}, "the runner is in plug_mine.runer, which has no file"),
        ({"runner": "plug_mine.runner:MinRunner"}, "no class 'MinRunner'; did you mean 'MineRunner'?"),
        ({"runner": "elsewhere.runner:R"}, "the runner is in elsewhere.runner, which no worker will find"),
        ({"supports": raising}, "supports() raised KeyError ('model_type') for a model whose config is not known"),
        ({"supports": exiting}, "supports() raised SystemExit (5) for a model whose config is not known"),
        ({"dockerfile": "plug_mine:Dockerfile"}, "its Dockerfile is given as 'plug_mine:Dockerfile', but there is no"),
        (
            {"stack": replace(MINE.stack, device_locks={"cuda": "plug_mine:cuda.lock"})},
            "its lock is given as 'plug_mine:cuda.lock', but there is no file",
        ),
        ({"supports": moody()}, "supports() says 'no', then None of one cell"),
        ({"stack": replace(MINE.stack, lock="plug_mine:other.lock")}, "there is no file"),
        (
            {"stack": replace(MINE.stack, packages=("plug_mine", "plug_other"))},
            "it names 'plug_other', which is no import package installed here",
        ),
    ],
)
def test_what_is_declared_and_not_there_is_a_fault_that_says_what_to_do(changes: dict[str, Any], fault: str) -> None:
    (found,) = declared(replace(MINE, **changes), CELL).faults
    assert fault in found


def test_a_runner_that_is_no_python_is_a_fault_that_names_the_line(package: Path) -> None:
    (package / "runner.py").write_text("\ndef (\n")
    (found,) = declared(MINE, CELL).faults
    assert found.startswith("plug_mine.runner is no Python: invalid syntax")
    assert found.endswith("line 2). Mend it")


def test_a_lock_that_pins_not_everything_is_a_fault(package: Path) -> None:
    (package / "mine.lock").write_text("--no-binary :none:\nnumpy>=2\n")
    (found,) = declared(MINE, CELL).faults
    assert "plug_mine:mine.lock leaves open what is installed ('numpy>=2')" in found


@pytest.mark.parametrize(
    "source",
    [
        "from plug_mine.parts import Part as MineRunner\n",
        "MineRunner = type('MineRunner', (), {})\n",
        "try:\n    from wonder import MineRunner\nexcept ImportError:\n    MineRunner = None\n",
    ],
    ids=["imported", "assigned", "in one of two ways"],
)
def test_a_runner_that_comes_otherwise_than_by_a_class_statement_is_found(package: Path, source: str) -> None:
    (package / "runner.py").write_text(source)
    assert declared(MINE, CELL).faults == ()


def test_a_runner_whose_module_is_a_package_is_found(package: Path) -> None:
    (package / "runner.py").unlink()
    (package / "runner").mkdir()
    (package / "runner" / "__init__.py").write_text("class MineRunner: ...\n")
    assert declared(MINE, CELL).faults == ()


@pytest.mark.usefixtures("package")
def test_importing_a_light_plugin_brings_its_own_modules_and_nothing_of_the_stack() -> None:
    found = loaded("plug_mine.plugin", MINE.stack)
    assert (found.error, found.heavy) == (None, ())
    assert "plug_mine" in found.brought


def test_a_plugin_that_imports_what_its_lock_pins_or_any_framework_is_heavy(package: Path) -> None:
    for module in ("wonder", "torch"):
        (package.parent / f"{module}.py").write_text("")
    info = package.parent / "wonder_framework-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wonder-framework\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("wonder\n")
    (package / "plugin.py").write_text("print('hello')\nimport wonder, torch, numpy\n")
    assert loaded("plug_mine.plugin", MINE.stack).heavy == ("torch", "wonder")


def test_where_no_lock_tells_what_the_stack_has_frameworks_are_heavy_all_the_same(package: Path) -> None:
    (package.parent / "torch.py").write_text("")
    (package / "plugin.py").write_text("import torch\n")
    assert loaded("plug_mine.plugin", replace(MINE.stack, lock="plug_mine:no.lock")).heavy == ("torch",)


def test_a_plugin_that_ends_the_process_without_a_word_is_told_too(package: Path) -> None:
    (package / "plugin.py").write_text("import os\nos._exit(3)\n")
    assert loaded("plug_mine.plugin", MINE.stack).error == "it printed nothing"


def test_a_plugin_that_cannot_be_imported_is_told_with_the_last_line_of_its_error(package: Path) -> None:
    (package / "plugin.py").write_text("1 / 0\n")
    assert loaded("plug_mine.plugin", MINE.stack).error == "ZeroDivisionError: division by zero"
