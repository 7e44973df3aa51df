"""Settings of all tests: nothing may depend on how busy the machine is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness.engine import Engine, EngineLostError

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# What a shell starts in the background ignores Ctrl-C, and all that it starts does too: tests send it to hosts of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = (Path(__file__).parent / "runs", Path(__file__).parent / "executors" / "test_venv.py")

LONGEST_FIRST = (
    "backends/test_quick_matrix.py",
    "runs/test_killed.py",
    "backends/test_generation_torch.py",
    "backends/test_generation_onnxruntime.py",
    "backends/test_task_parity.py",
    "backends/test_precision.py",
    "backends/test_plugin_packages.py",
    "backends/test_generation_flax.py",
    "runs/test_docker_endings.py",
    "backends/test_conformance.py",
    "backends/test_speech.py",
    "backends/test_models.py",
    "backends/test_compile.py",
    "backends/test_flax.py",
    "backends/test_flax_repairs.py",
    "backends/test_application_backends.py",
    "runs/test_endings.py",
    "scaffold/test_how_to.py",
    "testing/test_conformance_kit.py",
    "runs/test_docker_workloads.py",
    "runs/test_blocks.py",
    "runs/test_calibrating.py",
    "runs/test_cli.py",
    "runs/test_run.py",
    "checkpoints/test_generations.py",
    "images/test_real_images.py",
    "runs/test_generating.py",
    "runs/test_resume.py",
    "runs/test_warm.py",
    "runs/test_sharing.py",
    "executors/test_venv.py",
)
"""Files that take longest. A process has one file at a time, so that what is left for the end should be short."""

COMPILING_S = 1800
"""What a test of real stacks may take with all that it compiles first: far more than it does, so that only a hang is one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs and environments that pip makes are real, so they take their time; compilers beside one another take minutes."""
    items.sort(key=_place)
    for item in items:
        if item.get_closest_marker("stacks"):
            item.add_marker(pytest.mark.timeout(COMPILING_S))
        if any(item.path.is_relative_to(place) for place in SLOW) or item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.slow)


def _place(item: pytest.Item) -> int:
    """Among the files that take longest; those that do not keep their order, after them."""
    name = "/".join(item.path.parts[-2:])
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine. A test that asks for it carries the mark `docker`."""
    try:
        return Engine.connect()
    except EngineLostError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI has to have an engine: {error}")
        pytest.skip(str(error))
