"""A checkpoint without weights and a cache of its own: the fakes read neither."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from here_executor import PLUGINS

from harness.checkpoints import Checkpoint

if str(PLUGINS) not in sys.path:
    sys.path.append(str(PLUGINS))


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "bert", "vocab_size": 64, "max_position_embeddings": 64, "type_vocab_size": 2}
    return Checkpoint("path:made-up", folder, "0" * 64, config, None)
