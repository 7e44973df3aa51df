"""Bringing a dataset up to date with a results directory: what it lacks, told by content, in one commit.

Whoever pushes twice, or again after a connection that was cut when the commit was made already, adds nothing. Where others have
pushed meanwhile the Hub refuses the commit; then all is read again and joined with what they wrote.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.hub import card
from harness.hub.answers import Snapshot
from harness.hub.client import Dataset, UploadError
from harness.hub.files import Wanted
from harness.model import Result
from harness.spelling import listed

MOST_NAMED = 6
"""Models, and backends, in a commit's message."""

Now = Callable[[], datetime]


@dataclass(frozen=True)
class Patience:
    """How often an upload is tried, and how long it waits in between: twice as long each time."""

    attempts: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failed: int, error: UploadError) -> None:
        """After so many failed attempts; longer where the Hub asks for it."""
        self.sleep(max(error.wait_s, min(self.first_wait_s * 2 ** (failed - 1), self.longest_wait_s)))


HASTY = Patience(attempts=2)
"""Between the cells of a run: the machine is to measure, and what is missing is uploaded at the end or by `harness sync`."""


@dataclass(frozen=True)
class Pushed:
    """What one push added."""

    files: int
    results: int  # that these files tell of, each once
    message: str | None  # of the commit; None: the dataset had all already


def push(
    dataset: Dataset,
    wanted: Iterable[Wanted],
    patience: Patience | None = None,
    now: Now = lambda: datetime.now(UTC),
) -> Pushed:
    """Upload what the dataset lacks of the wanted files. Raises UploadError where no attempt came through."""
    patience, files = patience or Patience(), list(wanted)
    failed = 0
    while True:
        try:
            return _attempt(dataset, files, now)
        except UploadError as error:
            failed += 1
            if not error.may_pass or failed >= patience.attempts:
                raise
            patience.wait(failed, error)


def _attempt(dataset: Dataset, wanted: Sequence[Wanted], now: Now) -> Pushed:
    snapshot = dataset.snapshot()
    changes, results = dict[str, bytes](), dict[tuple[str, str], Result]()
    for each in wanted:
        data = _missing(each, snapshot, dataset)
        if data is not None:
            changes[each.path] = data
            results |= {(result.metadata.run_id, result.key): result for result in each.results}
    if not changes:
        return Pushed(0, 0, None)
    changes |= _card(dataset, snapshot, {*snapshot.files, *changes})
    message = commit_message(list(results.values()), now())
    dataset.commit(changes, message, snapshot.commit)
    return Pushed(len(changes), len(results), message)


def _missing(wanted: Wanted, snapshot: Snapshot, dataset: Dataset) -> bytes | None:
    """The bytes to store; None where they are stored already."""
    data, stored = wanted.data(), snapshot.files.get(wanted.path)
    if stored is not None and not stored.holds(data):
        data = wanted.joined(dataset.read(wanted.path, snapshot.commit), data)
    return None if stored is not None and stored.holds(data) else data


def _card(dataset: Dataset, snapshot: Snapshot, paths: set[str]) -> dict[str, bytes]:
    """The card, where it changes."""
    is_there = card.FILE in snapshot.files
    stored = dataset.read(card.FILE, snapshot.commit) if is_there else None
    data = card.card(None if stored is None else stored.decode(errors="replace"), paths).encode()
    return {} if data == stored else {card.FILE: data}


def commit_message(results: Sequence[Result], moment: datetime) -> str:
    """As "2 results: org/name; eager, onnxruntime; 1 ok, 1 failed; 2026-11-29T20:15:30+00:00"."""
    told = moment.isoformat(timespec="seconds")
    models = _few(result.config.model for result in results)
    backends = _few(result.config.backend for result in results)
    counts = Counter(str(result.status) for result in results)
    statuses = listed(f"{count} {status}" for status, count in counts.items())
    noun = "result" if len(results) == 1 else "results"
    return f"{len(results)} {noun}: {models}; {backends}; {statuses}; {told}"


def _few(words: Iterable[str]) -> str:
    """Each once; of many, the first and how many more: a commit's message is one line."""
    distinct = list(dict.fromkeys(words))
    more = f" and {len(distinct) - MOST_NAMED} more" if len(distinct) > MOST_NAMED else ""
    return listed(distinct[:MOST_NAMED]) + more
