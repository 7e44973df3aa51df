"""docs/reference/hooks.md is what docs/hooks.py makes of harness/hookspecs.py, and each hook is told in full."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

from harness import hookspecs, protocol

DOCS = Path(__file__).parents[1] / "docs"

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("harness_")}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "hooks.py"))


def test_the_page_is_what_the_script_makes(script: dict[str, Any]) -> None:
    assert script["PAGE"].read_text(encoding="utf-8") == script["render"](), "run `python docs/hooks.py`"


def test_every_hook_has_a_section_with_its_signature(script: dict[str, Any]) -> None:
    page = script["render"]()
    for name in HOOKS:
        assert f"### {name}\n\n```python\n@hookimpl\ndef {name}(" in page


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_says_when_it_is_called_and_what_comes_of_its_answer(name: str) -> None:
    told = inspect.getdoc(HOOKS[name]) or ""
    assert "\n\nCalled " in told
    returns_something = inspect.signature(HOOKS[name]).return_annotation != "None"
    assert ("\n\nReturns " in told) == returns_something


def test_the_policy_names_every_version() -> None:
    page = (DOCS / "reference" / "versions.md").read_text(encoding="utf-8")
    for name in ("RUNNER_VERSION", "PROTOCOL_VERSION"):
        assert name in vars(protocol)
        assert f"`{name}`" in page
    assert f"`runner_version={protocol.RUNNER_VERSION}`" in page
