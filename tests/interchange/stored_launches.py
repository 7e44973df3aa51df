"""A result with its launches on disk: real sample files, as a worker leaves them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from store.factories import a_cell, a_launch, a_result

from harness.model import Cell, LaunchSummary, Measurements, Result, RoundRecord, Status
from harness.store import ResultStore

MS = 1_000_000


def a_round(index: int, *, disturbed: bool = False) -> RoundRecord:
    return RoundRecord(
        index=index,
        mode="latency",
        calls=3,
        settle_calls=3,
        elapsed_ns=10**9,
        compilations=0,
        file=f"round-{index}.npz",
        disturbed=disturbed,
    )


def store_measured(
    store: ResultStore,
    cell: Cell | None = None,
    disturbed: Sequence[int] = (),
    run_id: str = "run-1",
    stamps_ms: Sequence[Sequence[int]] = (),
    **numbers: float,
) -> Result:
    """One launch of two rounds: calls of 10, 20 and 30 ms, and of 40, 50 and 60; something was compiled during the third.

    `stamps_ms`: of each call of a marked round, where there is one.
    """
    cell = cell or a_cell()
    rounds = [a_round(index, disturbed=index in disturbed) for index in (0, 1)]
    marked = (
        [a_round(2).model_copy(update={"mode": "marked", "marks": ["token"] * len(stamps_ms[0])})] if stamps_ms else []
    )
    store.add_launch(a_launch(cell, rounds=[*rounds, *marked]))
    folder = store.launch_folder(cell.key, "launch-1")
    if marked:
        calls = np.zeros(len(stamps_ms), np.int64)
        np.savez(folder / "round-2.npz", total_ns=calls, compiled=calls, mark_ns=np.array(stamps_ms, np.int64) * MS)
    for index in (0, 1):
        total_ns = np.array([10, 20, 30], np.int64) * MS + 30 * MS * index
        np.savez(folder / f"round-{index}.npz", total_ns=total_ns, compiled=np.array([0, 0, 1 - index], np.int64))
    summary = LaunchSummary(
        launch_id="launch-1",
        block_id="block-1",
        folder=str(folder.relative_to(store.root)),
        status=Status.OK,
        median_latency_s=0.04,
        throughput=None,
        samples=5,
        cold_start_s=None,
    )
    measured = Measurements(
        launches=1, samples=5, median_latency_s=0.04, per_launch=[summary], warm_up_calls=7, **numbers
    )
    result = a_result(cell, measurements=measured, run_id=run_id, environment=ENVIRONMENT, versions={"torch": "2.13.0"})
    store.add(result)
    return result


ENVIRONMENT = {
    "git": {"commit": "c0ffee", "branch": "main", "message": "Measure"},
    "host": {"gpu_models": ["NVIDIA H200"], "python": "3.12.1"},
    "stack": {"python": "3.11.7"},
}
