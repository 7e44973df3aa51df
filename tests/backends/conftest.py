"""The lab: real backends in their real stacks. Its environments and checkpoints are those of the user's own cache."""

from __future__ import annotations

import pytest
from harness_flax import plugin as flax
from harness_onnxruntime import plugin as onnxruntime
from harness_pytorch import plugin as pytorch
from launches import Lab

from harness import cache
from harness.executors.venv import VenvExecutor


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    offered = [backend for plugin in (pytorch, onnxruntime, flax) for backend in plugin.harness_register_backends()]
    executor = VenvExecutor(cache.room("environments"))
    return Lab(executor, {backend.name: backend for backend in offered}, tmp_path_factory.mktemp("lab"))
