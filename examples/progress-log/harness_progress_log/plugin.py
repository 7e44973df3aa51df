"""The observing hooks, one line of JSON each. An observer takes the arguments that it needs, by name, and no others."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from harness.hookspecs import hookimpl
from harness.model import Cell, Result
from harness.protocol import Event

VARIABLE = "HARNESS_PROGRESS_LOG"
"""Names the file. Without it nothing is written."""


@hookimpl
def harness_cell_started(cell: Cell) -> None:
    _post("started", cell)


@hookimpl
def harness_event(cell: Cell, event: Event) -> None:
    _post(event.kind, cell)


@hookimpl
def harness_cell_finished(result: Result) -> None:
    numbers = {"status": result.status, "median_latency_s": result.measurements.median_latency_s}
    _post("finished", result.config, **numbers)


def _post(event: str, cell: Cell, **more: object) -> None:
    """Append one line at once: whoever follows the file sees it now, and a killed run has lost none."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"time": time, "event": event, "cell": cell.label, "key": cell.short_key, **more})
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
