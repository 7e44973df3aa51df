"""The promise as a whole, by simulation: what does not differ is not called different more often than the level says.

The simulation is benchmarks/verdict_simulation.py, which runs the product's own functions; there it makes 2,000 comparisons.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.model import Protocol


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "verdict_simulation.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "settings", [{}, {"most_blocks": 5}, {"most_blocks": 100, "budget_seconds": 1e9}, {"blocks": 3}]
)
def test_a_cell_against_itself_is_called_different_in_at_most_6_of_100(
    simulation: ModuleType, settings: dict[str, float]
) -> None:
    counted = list(simulation.false_positives(400, Protocol(**settings)))
    assert sum(called for _, called, _, _ in counted) <= 0.06 * sum(each for _, _, each, _ in counted)


def test_a_true_difference_of_ten_percent_is_found_where_launches_differ_by_three(simulation: ModuleType) -> None:
    runs = [simulation.simulate(simulation.Machine(0.03), Protocol(), seed, speed_up=0.1) for seed in range(40)]
    assert sum(run.comparison.verdict == "faster" for run in runs) >= 38


def test_a_drift_of_twenty_percent_over_a_block_tilts_no_comparison(simulation: ModuleType) -> None:
    runs = [simulation.simulate(simulation.Machine(0.0, drift=0.2), Protocol(), seed) for seed in range(40)]
    assert sum(run.excludes_one for run in runs) <= 5
    assert max(abs(run.comparison.ratio - 1) for run in runs) < 0.03


def test_noise_beyond_the_budget_ends_in_no_difference_shown(simulation: ModuleType) -> None:
    run = simulation.simulate(simulation.Machine(0.3), Protocol(budget_seconds=200), seed=5)
    assert len(run.log_ratios) == 6  # 30 s each, in 200 s
    assert run.comparison.verdict == "no_difference_shown"
