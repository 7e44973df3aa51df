"""One question to one history, answered by DuckDB, in a memory that does not grow with the history beyond a limit."""

from __future__ import annotations

import ast
import contextlib
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.expressions import NAMES, Expression, check
from harness.model import HarnessError
from harness.query.conditions import condition
from harness.query.fields import FIELDS, LINE, Field, line_columns, quoted
from harness.spelling import did_you_mean, listed
from harness.store import ResultStore, records
from harness.store.heads import Heads
from harness.store.lines import PARTS

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

WRITTEN, LACKING = "written", "lacking"
"""Columns of our own: the order of writing; whether a line names a part that is not there."""

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
        self._heads = Heads(root)
        self._history = self._heads.path
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
        if not self._history.exists():
            self._make_empty(fields)
            return ()
        joins = self._read_parts(fields)
        torn = self._read_lines(fields, joins)
        self._check_parts()
        return tuple(
            f"{self._history}, line {number}: its writer was killed at it; it is not counted" for number in torn
        )

    def _read_parts(self, fields: Sequence[Field]) -> str:
        """Into a table for each kind of part that has some of the fields; the words that put them beside their lines."""
        self._heads.parts.catch_up()  # checks each against its name
        kinds = _kinds(fields)
        for kind in kinds:
            self._make_part([field for field in fields if field.part == kind], kind)
        return "".join(f" LEFT JOIN {quoted(kind)} ON {quoted(kind)}.sha256 = {LINE}.parts.{kind}" for kind in kinds)

    def _make_part(self, fields: Sequence[Field], kind: str) -> None:
        columns = {"sha256": "VARCHAR", **line_columns(fields)}
        self._connection.execute(f"CREATE TEMP TABLE {quoted(kind)} ({_typed(columns)})")
        if self._heads.parts.path.exists():
            source = _lines_of_json(columns, tolerant=True)
            text = f"INSERT INTO {quoted(kind)} SELECT DISTINCT ON (sha256) * FROM {source}"
            self._connection.execute(text, [str(self._heads.parts.path)])

    def _read_lines(self, fields: Sequence[Field], joins: str) -> list[int]:
        """Into the table `stored`, with their parts; the numbers of those that are torn."""
        import duckdb

        torn = self._heads.torn()
        try:
            self._load(fields, joins, tolerant=bool(torn))
        except duckdb.Error as error:
            raise HarnessError(f"{self._history} cannot be read ({_first_line(error)}): mend it") from None
        return torn

    def _load(self, fields: Sequence[Field], joins: str, *, tolerant: bool) -> None:
        """`tolerant`: lines that are no JSON are left out. They are numbered first: a join keeps no order."""
        parts = _typed(dict.fromkeys(PARTS, "VARCHAR"))
        source = _lines_of_json({**line_columns(fields), "parts": f"STRUCT({parts})"}, tolerant=tolerant)
        chosen = ", ".join(f"{field.sql} AS {quoted(field.name)}" for field in fields)
        lacking = " OR ".join(f"{LINE}.parts.{kind} <> coalesce({quoted(kind)}.sha256, '')" for kind in _kinds(fields))
        condition = f' WHERE {LINE}."key" IS NOT NULL' if tolerant else ""
        self._connection.execute(
            f"CREATE TEMP TABLE stored AS SELECT {WRITTEN}, coalesce({lacking}, FALSE) AS {LACKING}, {chosen} "
            f"FROM (SELECT *, row_number() OVER () AS {WRITTEN} FROM {source}) AS {LINE}{joins}{condition}",
            [str(self._history)],
        )

    def _check_parts(self) -> None:
        """No line names a part that is not there."""
        ((count,),) = self._connection.execute(f"SELECT count(*) FROM stored WHERE {LACKING}").fetchall()
        if count:
            deque(self._heads.lines(), maxlen=0)  # says of the first what it lacks
            raise HarnessError(f"{self._history} grew while it was read: ask again")

    def _make_empty(self, fields: Sequence[Field]) -> None:
        columns = {WRITTEN: "BIGINT", **{field.name: field.sql_type for field in fields}}
        self._connection.execute(f"CREATE TEMP TABLE stored ({_typed(columns)})")

    def _check(self) -> None:
        """No line is of a newer schema: a checksum tells that a line is whole, not what it means."""
        ((newest,),) = self._connection.execute("SELECT max(schema_version) FROM stored").fetchall()
        records.check_version(newest, str(self._history))

    def _keep_newest(self) -> None:
        """As `ResultStore.results`: by time, of equal times the one written last."""
        import duckdb

        if self._question.whole_history:
            return
        try:
            self._connection.execute(
                f"DELETE FROM stored WHERE {WRITTEN} NOT IN (SELECT last({WRITTEN} ORDER BY "
                f'CAST("timestamp" AS TIMESTAMPTZ), {WRITTEN}) FROM stored GROUP BY "key", host_hash)'
            )
        except duckdb.ConversionException as error:
            raise HarnessError(
                f"{self._history} has a timestamp that is none ({_first_line(error)}): mend it"
            ) from None

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
        order = f"{quoted(question.sort)} {way} NULLS LAST, {WRITTEN}" if question.sort else WRITTEN
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


def _kinds(fields: Iterable[Field]) -> tuple[str, ...]:
    """The parts that have some of the fields; of the run there always is."""
    return tuple(dict.fromkeys(field.part for field in fields if field.part))


def _lines_of_json(columns: Mapping[str, str], *, tolerant: bool) -> str:
    """As SQL reads a file, given as a parameter, with a record a line: these columns of it, no others."""
    told = ", ".join(f"{quoted(name)}: '{sql_type}'" for name, sql_type in columns.items())
    return f"read_json(?, format = 'newline_delimited', ignore_errors = {tolerant}, columns = {{{told}}})"


def _typed(columns: Mapping[str, str]) -> str:
    """As SQL declares them."""
    return ", ".join(f"{quoted(name)} {sql_type}" for name, sql_type in columns.items())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
