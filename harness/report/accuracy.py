"""Accuracy beside speed: what cells that differ in dtype and backend alone reach, and how long a call of theirs takes.

Each dtype is a workload of its own, so its table of latencies stands apart; whoever weighs bits against answers wants one of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.text import Text

from harness.accuracy import IS_BETTER
from harness.model import Cell, Result, Status, digest
from harness.report import units
from harness.report.layout import Row, paragraph, plain, table

NOTHING = "—"

Describe = Callable[[Cell], str]
"""A workload in words."""


def lines(results: Iterable[Result], describe: Describe, width: int) -> list[Text]:
    """A table for each workload in which any accuracy is known, its dtypes together; nothing where none is."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.measurements.accuracy_value is not None:
            groups.setdefault(_but_for_dtype(result), []).append(result)
    return [line for group in groups.values() for line in _table(group, describe, width)]


def _but_for_dtype(result: Result) -> str:
    """Equal where host, protocol and all of the workload but its dtype are."""
    hashes = result.metadata.hashes
    workload = result.config.model_copy(update={"dtype": ""}).workload_key
    return digest([workload, hashes.host_hash, hashes.protocol_hash])


def _table(group: Sequence[Result], describe: Describe, width: int) -> Iterator[Text]:
    metric = str(group[0].measurements.accuracy_metric)
    dtypes = ", ".join(dict.fromkeys(result.config.dtype for result in group))
    cell = group[0].config.model_copy(update={"dtype": dtypes})
    yield from paragraph(f"{plain(cell.model)}: accuracy beside speed", width, style="bold")
    yield from paragraph(describe(cell), width)
    yield from paragraph(f"{metric}: {IS_BETTER[metric]} is better", width)
    yield Text()
    yield from table([_heading(metric), *map(_row, sorted(group, key=_rank))], width)
    yield Text()


def _rank(result: Result) -> tuple[bool, float]:
    """By latency, the untimed last; then what is not ranked."""
    latency = result.measurements.median_latency_s
    return result.status is not Status.OK, math.inf if latency is None else latency


def _heading(metric: str) -> Row:
    return Row("\nbackend", ("steady\nlatency", f"\n{metric}", "\nparity", "\ndtype"), style="bold")


def _row(result: Result) -> Row:
    numbers = result.measurements
    latency = NOTHING if numbers.median_latency_s is None else units.duration(numbers.median_latency_s, 4)
    parity = NOTHING if numbers.parity_max_abs is None else units.difference(numbers.parity_max_abs)
    assert numbers.accuracy_value is not None, "asked of results with accuracy only"
    dtype = result.config.dtype if result.status is Status.OK else f"{result.config.dtype}, {result.status}"
    return Row(plain(result.config.label), (latency, units.significant(numbers.accuracy_value, 4), parity, dtype))
