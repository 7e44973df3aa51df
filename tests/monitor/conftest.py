"""The monitor as a process of its own, looking at an invented machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.monitor.spans import Log, read_log
from harness.monitor.watcher import FILE, watching
from monitor.machine import stand_in_variables

Look = Callable[..., Log]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Called with GPUs and variables of the environment: the log of a monitor that has looked at them `times` times."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)

    def run(gpus: list[dict[str, Any]] | str, times: int = 1, device: str = "cuda", **variables: str) -> Log:
        for name, value in {**stand_in_variables(gpus), **variables}.items():
            monkeypatch.setenv(name, value)
        with watching(tmp_path / "block", 60, device) as watcher:
            for number in range(times):
                watcher.look(str(number), "start")
            assert watcher.reason is None
        return read_log(tmp_path / "block" / FILE)

    return run
