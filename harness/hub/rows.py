"""A result as a row of a dataset: `{benchmark_config_hash, config, measurements, metadata}`, as transformers' benchmark_v2 has it.

Each of the three parts has the fields of that form, so that what reads it reads ours, and beside them all fields of our own
record. A summarised row is what is stored as the result; a full one has `measurements.raw` too: launch records, raw samples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, reduce
from operator import getitem
from typing import Any

from harness.interchange import benchmark_v2
from harness.interchange.columns import Columns, columns_of, plain
from harness.interchange.raw import RawLaunch
from harness.model import Cell, HarnessError, Measurements, Metadata, Record, Result


class Form(StrEnum):
    """How much of a result a row tells."""

    SUMMARIZED = "summarized"
    FULL = "full"


@cache
def columns(form: Form) -> Columns:
    """The columns of the rows, nested as they are."""
    measurements = columns_of(benchmark_v2.Measurements) | columns_of(Measurements)
    if form is Form.FULL:
        measurements |= {"raw": [columns_of(RawLaunch)]}
    return {
        "benchmark_config_hash": "string",
        "config": columns_of(benchmark_v2.Config) | columns_of(Cell),
        "measurements": measurements,
        "metadata": columns_of(benchmark_v2.Metadata) | columns_of(Metadata) | {"schema_version": "int64"},
    }


def to_line(result: Result, raw: Sequence[RawLaunch] | None = None) -> str:
    """A row, newline included: full with its raw launches, summarised without."""
    theirs = benchmark_v2.entry(result, raw)
    values: dict[str, Any] = {
        "benchmark_config_hash": result.key,
        "config": _values(theirs.config, result.config),
        "measurements": _values(theirs.measurements, result.measurements),
        "metadata": _values(theirs.metadata, result.metadata) | {"schema_version": result.schema_version},
    }
    if raw is not None:
        values["measurements"]["raw"] = [_values(launch) for launch in raw]
    form = Form.SUMMARIZED if raw is None else Form.FULL
    return json.dumps(plain(values, columns(form)), ensure_ascii=False) + "\n"


def key_of(line: bytes, where: str) -> str:
    """The key of the result of a row. Raises HarnessError where a text is no row."""
    return str(_told(line, where, "benchmark_config_hash"))


def timestamp_of(line: bytes, where: str) -> str:
    """When the result of a row was measured (ISO 8601, UTC). Raises HarnessError where a text is no row."""
    return str(_told(line, where, "metadata", "timestamp"))


def _told(line: bytes, where: str, *names: str) -> Any:
    try:
        return reduce(getitem, names, json.loads(line))
    except (ValueError, LookupError, TypeError):
        raise HarnessError(
            f"{where} in the dataset holds what is no result of the harness: move it to another folder there"
        ) from None


def _values(*records: Record) -> dict[str, Any]:
    """JSON values by field, of the last record that has it; what JSON has no word for (NaN, infinity) is null."""
    return {name: value for record in records for name, value in json.loads(record.model_dump_json()).items()}
