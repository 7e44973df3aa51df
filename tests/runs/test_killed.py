"""A sweep whose process is killed again and again, at any moment, ends with the rows of one that nobody disturbed."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

from run_bench import LIFE_S, Bench

from harness.model import Result
from harness.store import ResultStore

KILLS = 50
BLOCKS = 6
"""Of the sweep: three workloads, two each."""


def went_to_its_end(bench: Bench, results: str, life_s: float = LIFE_S) -> bool:
    """Whether a run did, which must be a good end, within the seconds that it may live."""
    arguments = ("run", "matrix.yaml", "--results", results)
    run = bench.commands.run(arguments, bench.folder, bench.environment(), life_s)
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    return run.returncode == 0


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


def test_sweeps_killed_fifty_times_at_any_moment_have_the_rows_of_one_that_was_not(bench: Bench) -> None:
    bench.write_matrix(batch_size=[1, 2, 3], protocol={"blocks": 2})
    began_s = time.monotonic()
    assert went_to_its_end(bench, "undisturbed")
    longest_s = 2 * (time.monotonic() - began_s) / BLOCKS
    undisturbed = rows(ResultStore.existing(bench.folder / "undisturbed").history())
    assert set(undisturbed.values()) == {1}

    chance, kills, sweeps = random.Random(7), 0, 0
    while kills < KILLS:
        sweeps += 1
        # Short lives more often than long ones.
        while not went_to_its_end(bench, f"sweep-{sweeps}", chance.triangular(0, longest_s, 0)):
            kills += 1
        assert_whole(bench.folder / f"sweep-{sweeps}", undisturbed)
