"""What calibrating decides, without a machine to measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report.cases import a_calibration
from store.factories import a_cell

from harness import cache, calibrate
from harness.calibrate import _affordable, _binding, _keep
from harness.model import Group, HarnessError, Matrix, PlannedCell, Protocol, Status

NOISY = [0.09, -0.08, 0.1, -0.11, 0.07, -0.09]
QUIET = [0.02, -0.02, 0.015, -0.025, 0.02, -0.01]


def test_threads_are_bound_where_launches_differ_less_by_it() -> None:
    decided = _binding(NOISY, QUIET)
    assert decided.bind_threads is True
    assert "6.4% unbound and 1.3% bound, by 6 blocks each" in decided.reason


def test_they_are_not_where_nothing_is_shown() -> None:
    assert _binding(NOISY, NOISY[::-1]).bind_threads is False
    assert _binding(QUIET, NOISY).bind_threads is False


def test_too_few_trials_decide_nothing() -> None:
    assert _binding(NOISY[:2], QUIET[:2]).bind_threads is None


def test_the_cell_is_the_baselines_or_else_the_first_that_runs() -> None:
    cells = [a_cell(backend=name) for name in ("flax", "onnxruntime", "eager")]
    planned = tuple(PlannedCell(cell, Status.UNSUPPORTED if cell.backend == "flax" else None) for cell in cells)
    matrix = Matrix("m", "", (Group("w", planned),), Protocol())
    assert calibrate.cell_of(matrix).backend == "eager"
    other = Matrix("m", "", (Group("w", planned[:2]),), Protocol())
    assert calibrate.cell_of(other).backend == "onnxruntime"
    nothing = Matrix("m", "", (Group("w", planned[:1]),), Protocol())
    with pytest.raises(HarnessError, match="no cell of matrix m can run here"):
        calibrate.cell_of(nothing)


def test_comparisons_end_before_the_budget_would(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    made = []
    for number in _affordable(most=100, budget_s=60.0, began_s=-5.0):
        made.append(number)
        now[0] += 10.0
    assert made == [0, 1, 2, 3, 4]  # 5 s were spent before, so a sixth would end at 65


def test_a_short_look_does_not_replace_a_long_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    long = a_calibration()
    short = long.model_copy(update={"noise_floor_ratio": None, "comparisons": 2})
    for found, kept in ((short, short), (long, long), (short, long)):
        _keep(found)
        assert calibrate.known(long.host_hash) == kept


def test_a_calibration_that_cannot_be_read_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    assert calibrate.known("h") is None
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "h.json").write_text(json.dumps({"schema_version": 99}))
    assert calibrate.known("h") is None
