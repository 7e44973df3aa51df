"""Who is found of a launch: whoever names or works in its folder, whatever they did to hide it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.executors.processes import processes_of

SLEEP = (sys.executable, "-c", "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()")


@contextmanager
def child(*more: str, **how: Any) -> Iterator[int]:
    """A process that has started, for as long as this lasts."""
    process = subprocess.Popen([*SLEEP, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.read(1) == b"."
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("how", ["environment", "arguments", "folder"])
def test_a_process_that_belongs_to_a_launch_by_one_thing_alone_is_found(tmp_path: Path, how: str) -> None:
    ways: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "environment": ((), {"env": {"ANY": f"{tmp_path}/scratch"}, "cwd": "/"}),
        "arguments": ((f"{tmp_path}/scratch",), {"env": {}, "cwd": "/"}),
        "folder": ((), {"env": {}, "cwd": tmp_path}),
    }
    arguments, options = ways[how]
    with child(*arguments, **options) as pid:
        (found,) = processes_of(tmp_path)
        assert found.startswith(f"process {pid} ({sys.executable} -c ")
    assert processes_of(tmp_path) == []


def test_a_process_of_another_launch_is_not_found(tmp_path: Path) -> None:
    with child(env={"ANY": "elsewhere"}, cwd="/"):
        assert processes_of(tmp_path) == []
