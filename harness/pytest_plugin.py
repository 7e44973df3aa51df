"""The conformance kit as tests: one for each check, of each backend that a test names.

    @pytest.mark.conformance("mine")
    def test_the_backend_keeps_its_promise(finding):
        assert finding.passed, finding.message

pytest loads this module wherever the harness is installed, so nothing else is imported before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.executors.base import Executor
    from harness.model import Backend
    from harness.testing import Finding

MARK = "conformance"
"""Takes a backend's name, and what `harness.testing.check_installed` takes by keyword."""

EXECUTORS = ("auto", "venv", "docker")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("harness").addoption(
        "--harness-executor",
        choices=EXECUTORS,
        default=os.environ.get("HARNESS_EXECUTOR", "auto"),
        help="where the conformance kit runs workers (default: HARNESS_EXECUTOR, else auto)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(backend, **options): run once for each check of the harness's conformance kit, with its finding",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for a finding becomes one test for each check."""
    if "finding" not in metafunc.fixturenames or metafunc.definition.get_closest_marker(MARK) is None:
        return
    from harness.testing import CHECKS

    metafunc.parametrize("finding", list(CHECKS), indirect=True)


@pytest.fixture
def finding(request: pytest.FixtureRequest, conformance: Callable[..., Mapping[str, Finding]]) -> Finding:
    """What one check came to for the backend that the test's mark names. A check without a verdict skips its test."""
    mark = request.node.get_closest_marker(MARK)
    if mark is None:
        raise pytest.UsageError(f'name the backend: @pytest.mark.{MARK}("NAME")')
    found = conformance(*mark.args, **mark.kwargs)[request.param]
    if found.passed is None:
        pytest.skip(found.message)
    return found


@pytest.fixture(scope="session")
def conformance(request: pytest.FixtureRequest) -> Callable[..., Mapping[str, Finding]]:
    """Checks a backend by name, once a session; the findings by check."""
    known: dict[str, Mapping[str, Finding]] = {}

    def check(name: str, **options: Any) -> Mapping[str, Finding]:
        wanted = f"{name} {sorted(options.items())}"
        if wanted not in known:
            known[wanted] = _checked(name, request.config.getoption("--harness-executor"), options)
        return known[wanted]

    return check


def _checked(name: str, executor: str, options: Mapping[str, Any]) -> Mapping[str, Finding]:
    from harness import plugins
    from harness.testing import check_installed

    loaded = plugins.load()
    findings = check_installed(name, loaded, _executor(executor, loaded.named(name)), **options)
    return {found.check: found for found in findings}


def _executor(name: str, backend: Backend) -> Executor:
    from harness.engine import Engine
    from harness.executors import choice

    if name == "venv":
        return choice.venv_executor()
    if name == "docker":
        return choice.docker_executor(Engine.connect(), _unheard)
    return choice.chosen_executor([(backend, "cpu")], _unheard, _unheard)


def _unheard(_: str) -> None:
    """pytest shows what a test came to; how it got there is for `harness check-backend`."""
