"""Several writers at once, and writers killed at any moment: real processes, real signals."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.model import Result
from harness.store import ResultStore

TESTS = Path(__file__).parent.parent


def start_writer(root: Path, name: str, count: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "store.writer", str(root), name, str(count)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)


def names_and_sizes(results: list[Result]) -> set[tuple[str, int]]:
    return {(result.config.backend, result.config.batch_size) for result in results}


def test_several_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    writers = [start_writer(tmp_path, name, 15) for name in names]
    for writer in writers:
        writer.communicate()
    store = ResultStore.existing(tmp_path)
    expected = {(name, number) for name in names for number in range(1, 16)}
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert store.warnings == []
    assert len(store.history()) == len(expected)
    assert names_and_sizes(store.history()) == expected
    run_files = tmp_path.glob("*/*_benchmark_*.json")
    assert sorted(len(json.loads(file.read_text())) for file in run_files) == [15, 15, 15]


@pytest.mark.parametrize("seed", range(10))
def test_a_writer_killed_at_any_moment_leaves_readable_files_and_all_it_had_finished(tmp_path: Path, seed: int) -> None:
    writer = start_writer(tmp_path, "doomed", 100_000)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0.0, 0.15))
    writer.kill()
    finished = {("doomed", int(line)) for line in writer.stdout.read().splitlines()}
    writer.wait()

    store = ResultStore.open(tmp_path)
    assert finished <= names_and_sizes(store.history())
    for file in tmp_path.glob("*/**/[!.]*.json"):
        assert isinstance(json.loads(file.read_text()), dict)
    in_run_files = [len(json.loads(file.read_text())) for file in tmp_path.glob("*/*_benchmark_*.json")]
    assert sum(in_run_files) == len(store.history())
    for result in store.results():
        assert len(store.launches(result.key)) == 1
    writer.stdout.close()
