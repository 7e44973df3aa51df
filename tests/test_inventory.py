"""What is installed: pins read from real files of a plugin's package, backends with their provenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.inventory import (
    ImageEntry,
    ImageState,
    Pin,
    installed,
    main_pins,
    parse_names,
    parse_pins,
    stack_entry,
    stacks_of,
)
from harness.model import HarnessError, Stack
from harness.plugins import load

LOCK = """\
# a comment, then an option
--find-links /wheels
torch==2.13.0
Jinja2 == 3.1.6  # why
optimum-onnx[onnxruntime]==0.1.0 ; python_version >= "3.11"
typing_extensions==4.16.0 \\
    --hash=sha256:0123
loose>=1.0
"""
REQUESTS = "# what we ask for\nOptimum_Onnx[onnxruntime]==0.1.0\ntorch\nnot-in-the-lock\n"

STACK = Stack(name="small", lock="small_plugin:small.lock", packages=("small_plugin",))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The import package `small_plugin`, with a lock."""
    folder = tmp_path / "small_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('nobody may import this')\n")
    (folder / "small.lock").write_text(LOCK)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def never(_stack: Stack) -> Path | None:
    return None


def test_pins_are_names_with_exact_versions_in_order() -> None:
    assert parse_pins(LOCK) == (
        Pin("torch", "2.13.0"),
        Pin("Jinja2", "3.1.6"),
        Pin("optimum-onnx", "0.1.0"),
        Pin("typing_extensions", "4.16.0"),
    )


def test_the_main_pins_are_those_asked_for_in_that_order_however_they_are_spelt() -> None:
    assert main_pins(parse_pins(LOCK), parse_names(REQUESTS)) == (Pin("optimum-onnx", "0.1.0"), Pin("torch", "2.13.0"))


@pytest.mark.usefixtures("package")
def test_without_a_file_of_requests_every_pin_is_a_main_one() -> None:
    entry = stack_entry(STACK, never)
    assert entry.main_pins == entry.pins == parse_pins(LOCK)


def test_the_file_of_requests_lies_beside_the_lock(package: Path) -> None:
    (package / "small.in").write_text(REQUESTS)
    assert [pin.name for pin in stack_entry(STACK, never).main_pins] == ["optimum-onnx", "torch"]


def test_whether_a_stack_is_made_is_the_executors_word(package: Path) -> None:
    assert stack_entry(STACK, never).made is None
    assert stack_entry(STACK, lambda _stack: package).made == package


def test_a_lock_that_is_not_there_is_a_problem_of_its_stack_alone(package: Path) -> None:
    (package / "small.lock").unlink()
    entry = stack_entry(STACK, never)
    assert (entry.pins, entry.made) == ((), None)
    assert "small.lock" in str(entry.problem)


@pytest.mark.usefixtures("package")
def test_an_executor_that_cannot_tell_is_a_problem_too() -> None:
    def refuse(_stack: Stack) -> Path | None:
        raise HarnessError("no such place")

    assert stack_entry(STACK, refuse).problem == "no such place"


def test_every_installed_backend_is_listed_with_its_plugin_and_a_stack_shared_by_those_of_one_plugin() -> None:
    entries = installed(load(), never, lambda backend: ImageEntry(ImageState.READY, backend.name))
    by_name = {entry.backend.name: entry for entry in entries}
    assert list(by_name) == sorted(by_name)
    assert by_name["eager"].plugin.distribution == "harness-pytorch"
    assert by_name["eager"].stack is by_name["sdpa"].stack
    assert [entry.image.tag for entry in entries] == list(by_name)
    assert [stack.stack.name for stack in stacks_of(entries)] == sorted({entry.backend.stack.name for entry in entries})
    assert "torch" in [pin.name for pin in by_name["eager"].stack.main_pins]
