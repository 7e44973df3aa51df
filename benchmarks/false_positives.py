"""How often a cell compared with itself is called different: by the harness, and by the plain method, in the same minutes.

The plain method is that of most tools: one process each, one after the other, and an interval of 95 % by a bootstrap over calls.
Both measure MiniLM on eager with the same rounds, one comparison of each by turns; figures so far are printed after every turn.
A turn takes minutes: `--into FILE` keeps each one, and a later run with the same file goes on from there.

    python benchmarks/false_positives.py [--comparisons N] [--batch-size N] [--into FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from harness import calibrate, checkpoints, plugins, schedule, stats
from harness.executors.choice import venv_executor
from harness.model import Cell, Result
from harness.samples import Samples, read_launch
from harness.schedule import Services
from harness.stats import Interval
from harness.store import ResultStore

RESAMPLES = 1000
OURS = calibrate.PROTOCOL.model_copy(update={"half_width": 0.05})
"""Wide enough that most comparisons end with the pilot: many comparisons tell more of the rate than narrow ones."""
PLAIN = OURS.model_copy(update={"blocks": 1, "schedule": "sequential", "baseline": calibrate.BACKEND})


@dataclass
class Turns:
    """The intervals of both methods so far, kept in a file where there is one."""

    file: Path | None
    plain: list[Interval] = field(default_factory=list)
    ours: list[Interval] = field(default_factory=list)

    @classmethod
    def kept_in(cls, file: Path | None) -> Turns:
        """With what an earlier run left there: a line for each turn."""
        turns = cls(file)
        for line in file.read_text().splitlines() if file and file.exists() else []:
            turns._count(**{name: value and Interval(**value) for name, value in json.loads(line).items()})
        return turns

    def add(self, plain: Interval, ours: Interval | None) -> None:
        self._count(plain, ours)
        if self.file:
            with self.file.open("a") as lines:
                lines.write(json.dumps({"plain": asdict(plain), "ours": ours and asdict(ours)}) + "\n")

    def _count(self, plain: Interval, ours: Interval | None) -> None:
        self.plain.append(plain)
        self.ours.extend([ours] if ours else [])


class Silent:
    """A reporter, for figures alone."""

    def note(self, text: str) -> None:
        """Nothing."""

    def doing(self, text: str) -> None:
        """Nothing."""

    def finished(self, result: Result, done: int, total: int) -> None:
        """Nothing."""


def plain_interval(twins: calibrate.Twins, services: Services) -> Interval:
    """Of the ratio of the medians of two processes, which ran one after the other."""
    outcome = schedule.run(twins.matrix(PLAIN), services, fresh=True)
    one, other = (_samples(result, services.store) for result in outcome.results)
    rng = np.random.default_rng(0)
    drawn = [np.median(rng.choice(samples, (RESAMPLES, len(samples))), axis=1) for samples in (one, other)]
    low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
    return Interval(float(low), float(high))


def _samples(result: Result, store: ResultStore) -> Samples:
    (launch,) = result.measurements.per_launch
    (record,) = (each for each in store.launches(result.key) if each.launch_id == launch.launch_id)
    return read_launch(record, store.root / launch.folder, store.root).samples


def our_interval(twins: calibrate.Twins) -> Interval | None:
    """As `harness calibrate` gets it; None where a launch was unstable."""
    result = twins.compare(OURS)
    low, high = result.measurements.ratio_ci_low, result.measurements.ratio_ci_high
    if result.status not in calibrate.COUNTED or low is None or high is None:
        return None
    return Interval(low, high)


def told(name: str, intervals: Sequence[Interval]) -> str:
    """Rejections with the interval of their rate, and the half-width in the middle."""
    if not intervals:
        return f"{name}: none yet"
    wrong = sum(not interval.low <= 1 <= interval.high for interval in intervals)
    rate = stats.binomial_interval(wrong, len(intervals))
    width = statistics.median((interval.high / interval.low) ** 0.5 - 1 for interval in intervals)
    return f"{name}: {wrong} of {len(intervals)} called different ({rate.low:.1%} to {rate.high:.1%}), ±{width:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    loaded = plugins.load()
    cell: Cell = calibrate.default_cell(loaded, checkpoints.identify(calibrate.MODEL).identity)
    with tempfile.TemporaryDirectory() as folder:
        services = Services(venv_executor(), loaded, ResultStore.open(Path(folder)), Silent())
        twins = calibrate.Twins(cell.model_copy(update={"batch_size": arguments.batch_size}), services)
        turns = Turns.kept_in(arguments.into)
        for _ in range(arguments.comparisons):
            turns.add(plain_interval(twins, services), our_interval(twins))
            print(told("plain", turns.plain), "·", told("harness", turns.ours), flush=True)


if __name__ == "__main__":
    main()
