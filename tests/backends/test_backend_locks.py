"""Lock files and the script that refreshes them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

BACKENDS = Path(__file__).parents[2] / "backends"
LOCKS = sorted(BACKENDS.glob("*/harness_*/*.lock"))


@pytest.fixture(params=LOCKS, ids=lambda path: path.stem)
def lock(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock_script", BACKENDS / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def requirements(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_there_is_a_lock_for_each_stack() -> None:
    assert {path.stem for path in LOCKS} >= {"pytorch", "onnxruntime"}


def test_a_lock_holds_exact_public_versions_and_nothing_else(lock: Path) -> None:
    wrong = [line for line in requirements(lock) if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)]
    assert wrong == []


def test_a_lock_holds_what_was_asked_for(lock: Path) -> None:
    asked = {re.sub(r"\[.*\]", "", line) for line in requirements(lock.with_suffix(".in"))}
    assert asked <= set(requirements(lock))


def test_a_lock_says_how_it_is_refreshed(lock: Path) -> None:
    assert f"`python backends/lock.py {lock.stem}`" in lock.read_text().splitlines()[0]


def test_a_lock_is_as_the_script_would_write_it(lock: Path, script: ModuleType) -> None:
    assert "".join(f"{line}\n" for line in requirements(lock)) == script.pins(requirements(lock))


def test_local_parts_of_versions_are_left_out(script: ModuleType) -> None:
    assert script.pins(["torch==2.13.0+cpu", "Jinja2==3.1.6"]) == "Jinja2==3.1.6\ntorch==2.13.0\n"
