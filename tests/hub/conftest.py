"""A small Hub on this machine, a dataset on it, a results directory, and no real waiting."""

from __future__ import annotations

import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import TOKEN, Dataset, Hub, served
from huggingface_hub.utils import _http
from store.factories import a_cell, a_failure, a_result

from harness.hub import client
from harness.hub.configuration import Target
from harness.hub.push import Patience
from harness.store import ResultStore

REPO = "tiny-org/results"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were to be waited: ours and the library's."""
    waits: list[float] = []
    monkeypatch.setattr(_http, "time", types.SimpleNamespace(**{**vars(time), "sleep": waits.append}))
    return waits


@pytest.fixture
def patience(waits: list[float]) -> Patience:
    return Patience(attempts=4, sleep=waits.append)


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    for hub in served(monkeypatch, tmp_path):
        hub.datasets[REPO] = Dataset({".gitattributes": b""})
        yield hub


@pytest.fixture
def stored(hub: Hub) -> Dataset:
    """What the Hub has of the dataset."""
    return hub.datasets[REPO]


@pytest.fixture
def dataset() -> client.Dataset:
    """What we see of the dataset."""
    return client.Dataset(Target(REPO, TOKEN))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """One run: eager is ok, onnxruntime failed."""
    store = ResultStore.open(tmp_path / "results")
    store.add(a_result(run_id="20261129T201500Z-0a1b2c"))
    store.add(a_failure(a_cell(backend="onnxruntime"), run_id="20261129T201500Z-0a1b2c"))
    return store
