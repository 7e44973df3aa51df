"""What a dataset should hold of our results, file by file, and how each is joined with what it holds already.

A file is a pure function of the stored results, so whether the dataset lacks something is told by digests, without a download.
One run gives one file of rows; its name has the run's own suffix, so no two runs, of whatever machines, share a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.hub.rows import Form, key_of, timestamp_of, to_line
from harness.interchange.raw import raw_launches
from harness.model import Result
from harness.store import ResultStore
from harness.store.layout import latest_file, safe_name

FOLDERS = {Form.SUMMARIZED: "summarized_results", Form.FULL: "full_results"}
LATEST = "latest"


@dataclass(frozen=True)
class Wanted:
    """A file that the dataset should hold."""

    path: str
    results: Sequence[Result]  # that it tells of
    data: Callable[[], bytes]  # made when asked for: full rows are large
    joined: Callable[[bytes, bytes], bytes]  # of what is stored there and ours


def wanted(store: ResultStore, forms: Iterable[Form], runs: frozenset[str] | None = None) -> Iterator[Wanted]:
    """The files of these runs, of all where None: rows in each form, and `latest/` where they have a key's newest result."""
    by_run = dict[str, list[Result]]()
    for result in store.history(runs):
        by_run.setdefault(result.metadata.run_id, []).append(result)
    for form in forms:
        yield from (_run_file(results, form, store) for results in by_run.values())
    yield from map(_latest_file, store.latest(by_run))


def _run_file(results: Sequence[Result], form: Form, store: ResultStore) -> Wanted:
    def data() -> bytes:
        lines = (to_line(x, raw_launches(x, store) if form is Form.FULL else None) for x in results)
        return "".join(lines).encode()

    path = f"{FOLDERS[form]}/benchmark_run_{_run_name(results[0])}.jsonl"
    return Wanted(path, results, data, lambda stored, ours: _all_rows(stored, ours, path))


def _latest_file(result: Result) -> Wanted:
    """One row on one line, so that `datasets` reads these files too."""
    path = latest_file(result.config)
    return Wanted(path, (result,), lambda: to_line(result).encode(), lambda stored, ours: _newer(stored, ours, path))


def _run_name(result: Result) -> str:
    """`YYYYMMDD_HHMMSS_{suffix}`, of the run's start, in UTC."""
    return safe_name(re.sub(r"^(\d{8})T(\d{6})Z-", r"\1_\2_", result.metadata.run_id))


def _all_rows(stored: bytes, ours: bytes, path: str) -> bytes:
    """The rows of both. A row that is stored is never altered: ours may have lost its raw samples since."""
    theirs, mine = ({key_of(line, path): line for line in data.splitlines()} for data in (stored, ours))
    return b"".join(line + b"\n" for line in (theirs | mine | theirs).values())  # in the order of theirs


def _newer(stored: bytes, ours: bytes, path: str) -> bytes:
    """What was measured later."""
    return ours if timestamp_of(ours, path) > timestamp_of(stored, path) else stored
