"""The flat rows of `harness.report.export` as a Parquet file, each column of the type that its field has in the record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.interchange.columns import Shape, columns_of
from harness.model import ImportedResult, Result
from harness.report.export import COLUMNS, export

_SQL_TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}


def write_parquet(results: Iterable[Result | ImportedResult], file: Path) -> None:
    """Write a row per result, by way of lines of JSON beside the file: DuckDB reads those in parallel and in little memory."""
    import duckdb  # a tenth of a second, which no other command needs

    with tempfile.TemporaryDirectory(dir=file.parent) as folder, duckdb.connect() as connection:
        lines = Path(folder) / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as text:
            text.writelines(export(results, "jsonl"))
        columns = ", ".join(f"'{name}': '{_sql_type(path)}'" for name, path in COLUMNS.items())
        rows = f"read_json(?, format = 'newline_delimited', columns = {{{columns}}})"
        target = str(file).replace("'", "''")
        connection.execute(f"COPY (SELECT * FROM {rows}) TO '{target}' (FORMAT parquet)", [str(lines)])


def _sql_type(path: str) -> str:
    """Text for what is no field but follows from some, and for mappings, which are JSON."""
    shape: Shape = columns_of(Result)
    for name in path.split("."):
        shape = shape.get(name, "") if isinstance(shape, dict) else ""
    return _SQL_TYPES.get(shape, "VARCHAR") if isinstance(shape, str) else "VARCHAR"
