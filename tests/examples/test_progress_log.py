"""The example of an observer, as the harness calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.model import Cell, Measurements, Metadata, Result
from harness.plugins import Observers, load
from harness.protocol import Closed

EXAMPLE = Path(__file__).parents[2] / "examples" / "progress-log"

CELL = Cell(model="m", checkpoint="c", threads=1, backend="eager", options={"mode": "fast"})


def result() -> Result:
    hashes = {"key": CELL.key, "protocol_hash": "p", "stack_hash": "s", "host_hash": "h"}
    metadata = {
        "run_id": "r",
        "timestamp": "2026-11-29T00:00:00+00:00",
        "harness_version": "0",
        "executor": "venv",
        "status": "ok",
        "hashes": hashes,
        "protocol": {},
    }
    numbers = Measurements(median_latency_s=0.25)
    return Result(key=CELL.key, metadata=Metadata.model_validate(metadata), measurements=numbers, config=CELL)


@pytest.fixture
def observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Tells the plugin of a cell, and returns what it has posted; where the file is to be can be chosen."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def observe(file: Path | None = tmp_path / "progress.jsonl", report: Callable[[str], None] = pytest.fail) -> Any:
        if file is None:
            monkeypatch.delenv("HARNESS_PROGRESS_LOG", raising=False)
        else:
            monkeypatch.setenv("HARNESS_PROGRESS_LOG", str(file))
        tell(load(["harness_progress_log.plugin"]).observers(report))
        return [json.loads(line) for line in file.read_text().splitlines()] if file and file.is_file() else []

    return observe


def tell(observers: Observers) -> None:
    observers.cell_started(CELL)
    observers.event(CELL, Closed())
    observers.cell_finished(result())


def test_each_event_is_one_line_that_names_its_cell(observed: Callable[..., list[dict[str, Any]]]) -> None:
    lines = observed()
    assert [line["event"] for line in lines] == ["started", "closed", "finished"]
    assert {(line["cell"], line["key"]) for line in lines} == {("eager[mode=fast]", CELL.short_key)}
    assert (lines[-1]["status"], lines[-1]["median_latency_s"]) == ("ok", 0.25)
    assert all(line["time"].endswith("+00:00") for line in lines)


def test_a_second_run_goes_on_in_the_same_file(observed: Callable[..., list[dict[str, Any]]]) -> None:
    observed()
    assert len(observed()) == 6


def test_without_the_variable_nothing_is_written(
    observed: Callable[..., list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    observed(None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_reported_and_stops_nothing(
    observed: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    reports: list[str] = []
    observed(tmp_path, reports.append)
    assert len(reports) == 3  # once for each hook
    assert all("IsADirectoryError" in report and report.endswith("the run goes on") for report in reports)
