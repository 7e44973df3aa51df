"""What a warm launch starts from: the compile caches and artefacts that one launch of the cell has left, untimed.

Made once per cell, stack and machine and kept in the harness's cache; every warm launch gets a private copy, so that what one
launch writes never helps the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import cache
from harness.block import BlockContext, Launch, PreparedCell
from harness.launch import LaunchEndedError
from harness.model import LaunchRecord, Status, digest


class NotFilledError(Exception):
    """The launch that was to fill the cache ended otherwise; its record says how."""

    def __init__(self, record: LaunchRecord) -> None:
        super().__init__(record.launch_id)
        self.record = record


def warmed(prepared: PreparedCell, context: BlockContext) -> PreparedCell:
    """The cell with its cache: found, or filled now. Raises NotFilledError."""
    hashes = prepared.hashes
    name = digest([hashes.key, hashes.stack_hash, hashes.host_hash, prepared.checkpoint.sha256])

    def fill(folder: Path) -> Mapping[str, Any]:
        _fill(prepared, context, folder)
        return {"cell": prepared.cell.model_dump(mode="json")}

    entry = cache.keep(cache.room("artefacts") / name, fill, context.doing)
    return replace(prepared, warm_cache=entry.folder)


def _fill(prepared: PreparedCell, context: BlockContext, folder: Path) -> None:
    context.doing(f"filling the cache of {prepared.cell.label}")
    records: list[LaunchRecord] = []
    launch = Launch(prepared, replace(context, keep=records.append), "warmth", 0, ())
    try:
        for step in (Launch.start, Launch.request_import, Launch.await_import, Launch.cold_start):
            step(launch)
        launch.hand_over(folder)
    except LaunchEndedError as ended:
        launch.end(ended.status, ended.error)
        raise NotFilledError(launch.record) from None
    except BaseException:
        launch.kill()
        raise
    assert launch.record.status is Status.OK
