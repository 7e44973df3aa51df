"""Every test has a cache of its own, and a maker that must not be called unless the test brings another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_checkpoint import make_nothing

from harness import checkpoints
from harness.checkpoints import Checkpoint, Maker


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("HARNESS_CACHE", str(folder))
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def get(said: list[str]) -> Callable[..., Checkpoint]:
    """The checkpoint of a source, as written."""

    def get(source: str, make: Maker = make_nothing) -> Checkpoint:
        return checkpoints.materialise(checkpoints.identify(source), make, said.append)

    return get
