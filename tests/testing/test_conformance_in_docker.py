"""The kit across the container boundary: the fake backend's own image, on a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness_fake import plugin

from harness import cache
from harness.checkpoints import Checkpoint
from harness.engine import Engine
from harness.executors.choice import docker_executor
from harness.testing import check_backend

pytestmark = pytest.mark.docker

WHEELS = cache.room("wheelhouse")  # the user's, as in every test of images


@pytest.fixture
def checkpoint_with_wheels(checkpoint: Checkpoint, tmp_path: Path) -> Checkpoint:
    """A checkpoint in a cache that has the wheels for images."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "wheelhouse").symlink_to(WHEELS)
    return checkpoint


def test_a_runner_in_a_container_is_seen_as_one_on_the_host_is(
    engine: Engine, checkpoint_with_wheels: Checkpoint
) -> None:
    fake = next(iter(plugin.harness_register_backends()))
    options = {"load_ms": 200.0, "compile_ms": 5.0, "call_ms": 4.0, "wrong": "cached"}
    executor = docker_executor(engine, lambda _: None)
    findings = check_backend(
        fake, executor, checkpoint_with_wheels, options=options, kill_in=("load",), reference=fake, timeout_s=60
    )
    verdicts = {finding.check: finding.passed for finding in findings}
    assert (verdicts["outputs"], verdicts["parity"]) == (False, False)
    for check in ("ends", "phases", "items", "wait", "computes", "threads", "compilations", "memory", "kill"):
        assert verdicts[check], findings
