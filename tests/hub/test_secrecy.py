"""What workers get of the token: nothing, wherever they run. (That no message holds it is tested where messages are made.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.executors.base import LaunchSpec
from harness.executors.venv import VenvExecutor
from harness.hub.configuration import load_env_file
from harness.model import Backend, Stack

BACKEND = Backend("tiny", Stack("tiny", "tiny:tiny.lock", ()), runner="tiny:Runner", description="")


@pytest.mark.parametrize("how", ["environment", "file"])
def test_a_worker_on_this_machine_gets_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_SeCrEt")
    if how == "file":
        monkeypatch.delenv("HF_TOKEN")
        (tmp_path / ".env").write_text("HF_TOKEN=hf_SeCrEt\n")
        load_env_file(tmp_path)
    spec = LaunchSpec("launch-1", BACKEND, tmp_path, tmp_path / "scratch")
    variables = VenvExecutor(tmp_path).environment(spec)
    assert "HF_TOKEN" not in variables
    assert "SeCrEt" not in "".join(variables.values())
