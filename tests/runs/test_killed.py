"""A sweep whose process is killed again and again, at any moment, ends with the rows of one that nobody disturbed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_bench import Bench

from harness.model import Result
from harness.store import ResultStore

KILLS = 50
BLOCKS = 6
"""Of the sweep: three workloads, two each."""


class Runs:
    """Starts runs by `forked_runs`, and kills them."""

    def __init__(self, bench: Bench) -> None:
        self._log = bench.folder / "log"
        argv = [sys.executable, str(Path(__file__).with_name("forked_runs.py")), str(self._log)]
        self._process = subprocess.Popen(
            argv,
            cwd=bench.folder,
            env=bench.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, results: str, life_s: float = 60.0) -> bool:
        """Whether it went to its end, which must be a good one, within the seconds that it may live."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{life_s} run matrix.yaml --results {results}\n")
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL), self.told()
        return code == 0

    def told(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def runs(bench: Bench) -> Iterator[Runs]:
    runs = Runs(bench)
    yield runs
    runs.close()


def rows(history: list[Result]) -> Counter[tuple[str, str, int, int, bool]]:
    """What does not depend on how fast the machine was, of each result in a history."""
    return Counter(
        (
            result.key,
            str(result.status),
            result.measurements.launches,
            result.measurements.blocks,
            result.measurements.ratio_to_baseline is None,
        )
        for result in history
    )


def assert_whole(folder: Path, undisturbed: Counter[tuple[str, str, int, int, bool]]) -> None:
    """No row lost, none doubled, in any of the places that hold rows."""
    assert rows(ResultStore.existing(folder).history()) == undisturbed
    in_run_files = [json.loads(file.read_text()) for file in folder.glob("*/*_benchmark_*.json")]
    assert sum(map(len, in_run_files)) == len(undisturbed)
    assert len(list(folder.glob("latest/**/*.json"))) == len(undisturbed)


def test_sweeps_killed_fifty_times_at_any_moment_have_the_rows_of_one_that_was_not(bench: Bench, runs: Runs) -> None:
    bench.write_matrix(batch_size=[1, 2, 3], protocol={"monitor": False})
    began_s = time.monotonic()
    assert runs.run("undisturbed")
    longest_s = 2 * (time.monotonic() - began_s) / BLOCKS
    undisturbed = rows(ResultStore.existing(bench.folder / "undisturbed").history())
    assert set(undisturbed.values()) == {1}

    chance, kills, sweeps = random.Random(7), 0, 0
    while kills < KILLS:
        sweeps += 1
        while not runs.run(
            f"sweep-{sweeps}", chance.triangular(0, longest_s, 0)
        ):  # short lives more often than long ones
            kills += 1
        assert_whole(bench.folder / f"sweep-{sweeps}", undisturbed)
