"""The results directory. The history is the truth; a run's file and `latest/` are views of it for people and tools.

Writers of several processes take turns by a lock file. Within a turn `latest/` is written first and the history last, so that a
kill in between costs at most this one result, which resume then measures again. A run's file is written when the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from datetime import datetime
from pathlib import Path
from typing import Self

from harness.model import HarnessError, Hashes, ImportedResult, LaunchRecord, Result
from harness.store import durable, layout, lines, records, runs
from harness.store.heads import HashesOfHead, Head, told
from harness.store.history import Entry, History


class ResultStore:
    """Reads and writes one results directory. Made with `open` to write, with `existing` to read only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._history = History(root)
        self._begun: dict[runs.Owner, runs.OpenRun] = {}  # those that this store has added results of
        self._ok: dict[HashesOfHead, Entry] = {}  # newest, of the first `_indexed` entries of the history
        self._indexed = 0

    @classmethod
    def open(cls, root: Path) -> Self:
        """For writing: the folder is made, and whatever would stop the first result (no permission, no room, an unreadable
        or newer history) is a HarnessError now. Runs that were killed get their files."""
        durable.check_writable(root)
        store = cls(root)
        store._history.catch_up()
        store._finish_killed_runs()
        return store

    @classmethod
    def existing(cls, root: Path) -> Self:
        """For reading: nothing is made or written. A folder without a history and without imported results is a HarnessError."""
        store = cls(root)
        if not durable.exists(store._history.path) and not durable.exists(root / layout.IMPORTED):
            raise HarnessError(_no_results(root))
        store._history.catch_up()
        return store

    @property
    def warnings(self) -> list[str]:
        """One sentence for each line of the history, as far as read, that a kill has cut short."""
        return [
            f"{self._history.path}, line {number}: its writer was killed at it; the text stays, its result is not counted"
            for number in self._history.torn
        ]

    def add(self, result: Result) -> None:
        """Store a result: as the latest of its key, in the history. On disk when this returns.

        Its run's file is written by `finish_runs`.
        """
        short = lines.shortened(result)
        latest = self.root / layout.latest_file(result.config)
        with durable.locked(self.root / layout.LOCK):
            self._history.catch_up()
            _check_replaceable(Result, latest)
            if (owner := runs.owner_of(result)) not in self._begun:
                self._begun[owner] = runs.begin(self.root, result)
            durable.replace_file(latest, records.to_text(result))
            self._history.add(short)

    def finish_runs(self) -> None:
        """Write the files of the runs that results were added of: they have ended."""
        if not self._begun:
            return
        with durable.locked(self.root / layout.LOCK):
            self._history.catch_up()
            for owner in list(self._begun):
                self._begun.pop(owner).finish(self._results_of({owner[0]}))

    def history(self, runs: Container[str] | None = None) -> list[Result]:
        """Every result ever, in order of writing; only those of some runs where these are given."""
        self._history.catch_up()
        return self._results_of(runs)

    def results(self) -> list[Result]:
        """The newest result of each key on each host, in order of first appearance."""
        return self._history.results(self._newest(lambda head: (head.key, head.host_hash)))

    def latest(self, runs: Container[str] | None = None) -> list[Result]:
        """The newest result of each key, of whatever host: what `latest/` holds; only those of some runs where these are given."""
        newest = self._newest(lambda head: head.key)
        return self._history.results(entry for entry in newest if runs is None or entry.head.run_id in runs)

    def find(self, hashes: Hashes) -> Result | None:
        """The newest result that was ok and has all four hashes: what resume takes instead of measuring."""
        self._history.catch_up()
        for entry in self._history.entries[self._indexed :]:
            if entry.head.is_ok:
                self._ok[entry.head.hashes] = entry
        self._indexed = len(self._history.entries)
        found = self._ok.get(told(hashes))
        return self._history.results([found])[0] if found else None

    def launch_folder(self, key: str, launch_id: str) -> Path:
        """The folder of a launch's logs, samples and record, made where it is missing."""
        folder = self.root / layout.launch_folder(key, launch_id)
        durable.make_folder(folder)
        return folder

    def block_folder(self, block_id: str) -> Path:
        """The folder of what belongs to a block as a whole, made by who writes there."""
        return self.root / layout.block_folder(block_id)

    def add_launch(self, record: LaunchRecord) -> None:
        """Store a launch's record beside its samples; a record of the same launch is replaced."""
        path = self.launch_folder(record.hashes.key, record.launch_id) / layout.LAUNCH
        _check_replaceable(LaunchRecord, path)
        durable.replace_file(path, records.to_text(record))

    def launches(self, key: str) -> list[LaunchRecord]:
        """The records of a key's launches, oldest first. A launch that was killed before its end has none."""
        paths = (self.root / layout.launch_folder(key, "")).glob(f"*/{layout.LAUNCH}")
        found = [records.read(LaunchRecord, path) for path in paths]
        return sorted(found, key=lambda record: (record.started_at, record.launch_id))

    def add_imported(self, result: ImportedResult) -> bool:
        """Store a result of another tool; False where it is there already."""
        path = self.root / layout.imported_file(result.key)
        if durable.exists(path):
            return False
        durable.replace_file(path, records.to_text(result))
        return True

    def imported(self) -> list[ImportedResult]:
        """The results of other tools, by tool, file and entry."""
        found = (records.read(ImportedResult, path) for path in self.root.glob(layout.imported_file("*")))
        return sorted(found, key=lambda each: (each.origin.tool, each.origin.file, each.origin.entry, each.key))

    def _results_of(self, runs: Container[str] | None) -> list[Result]:
        return self._history.results(
            entry for entry in self._history.entries if runs is None or entry.head.run_id in runs
        )

    def _newest(self, place: Callable[[Head], Hashable]) -> list[Entry]:
        """By time, as results of other machines may have been merged in later; of equal times the one written last."""
        self._history.catch_up()
        newest = dict[Hashable, Entry]()
        for entry in self._history.entries:
            known = newest.get(place(entry.head))
            if known is None or moment(entry.head.timestamp) >= moment(known.head.timestamp):
                newest[place(entry.head)] = entry
        return list(newest.values())

    def _finish_killed_runs(self) -> None:
        if not runs.has_unfinished(self.root):
            return
        with durable.locked(self.root / layout.LOCK):
            for run in runs.killed(self.root):
                run.finish(self._results_of({run.owner[0]}))


def _no_results(root: Path) -> str:
    if durable.exists(root / layout.PARTS) or durable.exists(root / layout.LATEST):
        return f"{root} has results, but its {layout.HISTORY} is gone: bring it back from a copy"
    if durable.exists(root / layout.LAUNCHES):
        return (
            f"{root} holds launches, but no cell has all of its own yet: the command that began them goes on from there"
        )
    return f"{root} holds no {layout.HISTORY}: give the folder that `harness run --results` wrote to"


def moment(timestamp: str) -> datetime:
    """To compare with those of other machines."""
    return datetime.fromisoformat(timestamp)


def _check_replaceable(kind: type[records.Stored], path: Path) -> None:
    """Raise HarnessError where a file is of a newer schema or none of ours: it is never overwritten."""
    if durable.exists(path):
        records.read(kind, path)
