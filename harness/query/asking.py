"""One question to one history, answered by DuckDB, in a memory that does not grow with the history beyond a limit."""

from __future__ import annotations

import ast
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.expressions import NAMES, Expression, check
from harness.model import HarnessError
from harness.query.conditions import condition
from harness.query.fields import FIELDS, Field, line_columns, quoted
from harness.spelling import did_you_mean, listed
from harness.store import ResultStore, records
from harness.store.heads import lines
from harness.store.layout import HISTORY

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "1GB"
"""Of DuckDB's; beyond it, it works on the disk."""

SHOWN = (
    *("key", "status", "model", "task", "backend", "options", "compile_cache", "device", "dtype", "batch_size"),
    *(
        "sequence_length",
        "threads",
        "median_latency_s",
        "throughput",
        "throughput_unit",
        "ratio_to_baseline",
        "verdict",
    ),
    *("timestamp", "host_hash"),
)
"""What an answer tells of each result where nothing else is asked for, beside what the question names."""

_NEEDED = ("key", "host_hash", "timestamp", "schema_version", "backend", "options")
"""To tell the newest, to refuse newer schemas, and to know which options there are."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What is asked of a history."""

    where: str | None = None
    sort: str | None = None  # by this field, null last; without it in order of writing
    descending: bool = False
    limit: int | None = None
    columns: Sequence[str] | None = None  # None: SHOWN, and what is named above
    whole_history: bool = False  # not only the newest of each key on each host


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    columns: tuple[str, ...]
    total: int  # results for which `where` holds; there may be fewer rows, for the limit
    rows: Iterator[Row]  # by column; to be read before the next question
    warnings: tuple[str, ...]


@contextlib.contextmanager
def ask(root: Path, question: Question) -> Iterator[Answer]:
    """Answer a question to a results directory. Raises HarnessError where the question or the history is none."""
    _check_names(question)
    import duckdb  # a tenth of a second, which no other command needs

    # Nothing is fetched: the JSON reader is in the package.
    offline: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "memory_limit": MEMORY_LIMIT,
    }
    with tempfile.TemporaryDirectory() as spill, duckdb.connect(config=offline) as connection:
        connection.execute("SET temp_directory = ?", [spill])
        yield _Asking(connection, root, question).answer()


def _check_names(question: Question) -> None:
    for option, names in (("--sort", [question.sort] if question.sort else []), ("--columns", question.columns or [])):
        for name in names:
            if name not in FIELDS:
                raise HarnessError(
                    f"{option} {name!r}: no such column{did_you_mean(name, FIELDS)} (there are {listed(FIELDS)})"
                )


class _Asking:
    def __init__(self, connection: duckdb.DuckDBPyConnection, root: Path, question: Question) -> None:
        self._connection = connection
        self._history = root / HISTORY
        self._question = question
        self._named = names_in(question.where)
        if not self._history.exists():
            ResultStore.existing(root)  # says what is missing; or there are imported results alone

    def answer(self) -> Answer:
        columns = self._columns()
        warnings = self._read([FIELDS[name] for name in dict.fromkeys((*columns, *self._named, *_NEEDED))])
        self._check()
        self._keep_newest()
        self._keep_where()
        ((total,),) = self._connection.execute("SELECT count(*) FROM stored").fetchall()
        return Answer(columns, total, self._rows(columns), warnings)

    def _columns(self) -> tuple[str, ...]:
        question = self._question
        if question.columns is not None:
            return tuple(dict.fromkeys(question.columns))
        sort = (question.sort,) if question.sort else ()
        return tuple(dict.fromkeys((*SHOWN, *self._named, *sort)))

    # --- the history ------------------------------------------------------------------------------------------------

    def _read(self, fields: Sequence[Field]) -> tuple[str, ...]:
        """Into the table `stored`; a sentence for each line that is left out. Raises HarnessError naming file and line."""
        import duckdb

        if not self._history.exists():
            self._make_empty(fields)
            return ()
        try:
            self._load(fields, tolerant=False)
            return ()
        except duckdb.Error as error:
            torn = [
                line.number for line in lines(self._history) if line.head is None
            ]  # any other damage is raised here
            if not torn:
                raise HarnessError(f"{self._history} cannot be read ({_first_line(error)}): mend it") from None
        self._load(fields, tolerant=True)
        return tuple(
            f"{self._history}, line {number}: its writer was killed at it; it is not counted" for number in torn
        )

    def _load(self, fields: Sequence[Field], *, tolerant: bool) -> None:
        """`tolerant`: lines that are no JSON are left out."""
        condition = ' WHERE "key" IS NOT NULL' if tolerant else ""
        chosen = ", ".join(f"{field.sql} AS {quoted(field.name)}" for field in fields)
        source = (
            f"read_json(?, format = 'newline_delimited', ignore_errors = {tolerant}, columns = {line_columns(fields)})"
        )
        text = f"CREATE TEMP TABLE stored AS SELECT * FROM (SELECT {chosen} FROM {source}){condition}"
        self._connection.execute(text, [str(self._history)])

    def _make_empty(self, fields: Sequence[Field]) -> None:
        typed = ", ".join(f"{quoted(field.name)} {field.sql_type}" for field in fields)
        self._connection.execute(f"CREATE TEMP TABLE stored ({typed})")

    def _check(self) -> None:
        """Every line is a result, of no newer schema."""
        counts = 'SELECT max(schema_version), count(*) FILTER ("key" IS NULL) FROM stored'
        ((newest, nameless),) = self._connection.execute(counts).fetchall()
        records.check_version(newest, str(self._history))
        if nameless:
            raise HarnessError(
                f"{self._history} has {nameless} lines that are no results: `harness report` names the first"
            )

    def _keep_newest(self) -> None:
        """As `ResultStore.results`: by time, of equal times the one written last."""
        if not self._question.whole_history:
            self._connection.execute(
                'DELETE FROM stored WHERE rowid NOT IN (SELECT last(rowid ORDER BY CAST("timestamp" AS TIMESTAMPTZ), rowid) '
                'FROM stored GROUP BY "key", host_hash)'
            )

    # --- the question -----------------------------------------------------------------------------------------------

    def _keep_where(self) -> None:
        if self._question.where is not None:
            sql = condition(self._expression(self._question.where))
            self._connection.execute(f"DELETE FROM stored WHERE NOT {sql.text}", sql.parameters)

    def _expression(self, where: str) -> Expression:
        rows = self._connection.execute("SELECT DISTINCT backend, unnest(json_keys(options)) FROM stored ORDER BY ALL")
        options: dict[str, list[str]] = {}
        for backend, option in rows.fetchall():
            options.setdefault(backend, []).append(option)
        return check(where, dict.fromkeys((*NAMES, *FIELDS)), options, "--where")

    def _rows(self, columns: Sequence[str]) -> Iterator[Row]:
        question = self._question
        chosen = ", ".join(map(quoted, columns))
        way = "DESC" if question.descending else "ASC"
        order = f"{quoted(question.sort)} {way} NULLS LAST, rowid" if question.sort else "rowid"
        limit = "" if question.limit is None else f" LIMIT {int(question.limit)}"
        result = self._connection.execute(f"SELECT {chosen} FROM stored ORDER BY {order}{limit}")
        while found := result.fetchmany(10_000):
            for values in found:
                yield dict(zip(columns, values, strict=True))


def names_in(where: str | None) -> tuple[str, ...]:
    """The fields that a text names, before it is checked: what has to be read to check and answer it."""
    try:
        tree = ast.parse((where or "").strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # checking it says what is wrong
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return tuple(dict.fromkeys(name for name in names if name in FIELDS))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
