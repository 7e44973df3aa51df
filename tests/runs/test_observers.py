"""Slow and raising observers beside a whole run: nothing is timed while one is at work, and nothing is lost."""

from __future__ import annotations

import json

import pytest
from run_bench import Bench

from harness.model import Status
from harness.monitor.spans import read_log
from harness.monitor.watcher import FILE

SLOW = """\
import json, time
from harness.hookspecs import hookimpl

def slowly(hook):
    began = time.monotonic_ns()
    time.sleep(0.05)
    with open("observed.jsonl", "a") as file:
        file.write(json.dumps([hook, began, time.monotonic_ns()]) + "\\n")

@hookimpl
def harness_cell_started(): slowly("started")

@hookimpl
def harness_event(event): slowly(event.kind)

@hookimpl
def harness_cell_finished(): slowly("finished")
"""

RAISING = """\
from harness.hookspecs import hookimpl

@hookimpl
def harness_event(): raise OSError("no space for observers")
"""


@pytest.fixture
def observers(bench: Bench) -> list[str]:
    """The options that load a slow observer and one that raises."""
    (bench.folder / "slow_observer.py").write_text(SLOW)
    (bench.folder / "raising_observer.py").write_text(RAISING)
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{bench.folder}"
    return ["-p", "slow_observer", "-p", "raising_observer"]


def test_observers_are_called_outside_timed_rounds_and_one_that_raises_is_told_once(
    bench: Bench, observers: list[str]
) -> None:
    bench.write_matrix(protocol={"blocks": 1, "monitor": True, "idle_seconds": 0.0})
    run = bench.run(*observers)
    assert run.returncode == 0, run.stderr
    calls = [json.loads(line) for line in (bench.folder / "observed.jsonl").read_text().splitlines()]
    rounds = round_spans(bench)
    assert len(rounds) == [call[0] for call in calls].count("samples") > 0
    for hook, began_ns, ended_ns in calls:
        assert not [span for span in rounds if began_ns < span[1] and span[0] < ended_ns], hook
    assert run.stderr.count("no space for observers") == 1
    assert {result.status for result in bench.by_backend().values()} == {Status.OK}


def round_spans(bench: Bench) -> list[tuple[int, int]]:
    """When rounds began and ended, as the monitor was asked to look at their edges. On the clock of all processes."""
    (file,) = bench.results.glob(f"blocks/*/{FILE}")
    edges: dict[str, dict[str, int]] = {}
    for sample in read_log(file).samples:
        if sample.mark:
            name, _, edge = sample.mark.rpartition("/")
            edges.setdefault(name, {})[edge] = sample.at_ns
    return [(each["start"], each["end"]) for each in edges.values()]
