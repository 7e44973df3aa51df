"""What the worker may import: it is copied into environments that hold nothing else of harness."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

HARNESS = Path(harness.__file__).parent
SHARED = ("__init__.py", "protocol.py", "tasks.py")
COPIED = [*(HARNESS / name for name in SHARED), *sorted((HARNESS / "worker").glob("*.py"))]
OURS = {"harness.protocol", "harness.tasks", "harness.worker"}


@pytest.mark.parametrize("file", COPIED, ids=lambda file: str(file.relative_to(HARNESS)))
def test_the_copied_files_import_the_standard_library_numpy_and_each_other(file: Path) -> None:
    for module in imported_by(file):
        package = module.partition(".")[0]
        is_ours = any(module == ours or module.startswith(f"{ours}.") for ours in OURS)
        assert is_ours or package == "numpy" or package in sys.stdlib_module_names, f"{file.name} imports {module}"


@pytest.mark.parametrize("name", SHARED)
def test_what_host_and_worker_share_needs_no_numpy(name: str) -> None:
    assert not any(module.startswith("numpy") for module in imported_by(HARNESS / name))


def imported_by(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name} imports relatively"
            assert node.module is not None
            yield node.module
