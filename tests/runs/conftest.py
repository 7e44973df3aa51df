"""Whole runs of the fake backend, each in a folder and a cache of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_bench import Bench

from harness import cache


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A cache of its own, but for the environments: those are the user's, and content-addressed."""
    own = tmp_path / "cache"
    own.mkdir()
    environments = cache.room("environments")
    environments.mkdir(parents=True, exist_ok=True)
    (own / "environments").symlink_to(environments)
    _write_model(tmp_path / "model")
    return Bench(tmp_path, own)


def _write_model(folder: Path) -> None:
    folder.mkdir()
    config = {
        "model_type": "bert",
        "vocab_size": 64,
        "hidden_size": 8,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
