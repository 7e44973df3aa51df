"""The results directory. The history is the truth; a run's file and `latest/` are views of it for people and tools.

Writers of several processes take turns by a lock file. Within a turn the views are written first and the history last, so
that a kill in between costs at most this one result, which resume then measures again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from harness.model import HarnessError, Hashes, LaunchRecord, Result, Status
from harness.store import durable, layout, records
from harness.store.history import History


class ResultStore:
    """Reads and writes one results directory. Made with `open` to write, with `existing` to read only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._history = History(root / layout.HISTORY)
        self._begun: dict[tuple[str, str], str] = {}  # (run, model) -> the run file's first choice of name
        self._ok: dict[Hashes, Result] = {}  # newest, of the first `_indexed` results of the history
        self._indexed = 0

    @classmethod
    def open(cls, root: Path) -> Self:
        """For writing: the folder is made, and whatever would stop the first result (no permission, no room, an unreadable
        or newer history) is a HarnessError now."""
        durable.check_writable(root)
        store = cls(root)
        store._history.catch_up()
        return store

    @classmethod
    def existing(cls, root: Path) -> Self:
        """For reading: nothing is made or written. A folder without a history is a HarnessError."""
        store = cls(root)
        if not durable.exists(store._history.path):
            raise HarnessError(
                f"{root} holds no {layout.HISTORY}: give the folder that `harness run --results` wrote to"
            )
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
        """Store a result: in its run's file, as the latest of its key, in the history. On disk when this returns."""
        line = records.to_line(result)
        latest = self.root / layout.latest_file(result.config)
        with durable.locked(self.root / layout.LOCK):
            self._history.catch_up()
            run_file, run = self._run_of(result)
            _check_replaceable(Result, latest)
            durable.replace_file(run_file, records.run_to_text({**run, result.key: result}))
            durable.replace_file(latest, records.to_text(result))
            self._history.append(line)

    def history(self) -> list[Result]:
        """Every result ever, in order of writing."""
        self._history.catch_up()
        return list(self._history.results)

    def results(self) -> list[Result]:
        """The newest result of each key, in order of the keys' first appearance."""
        return list({result.key: result for result in self.history()}.values())

    def find(self, hashes: Hashes) -> Result | None:
        """The newest result that was ok and has all four hashes: what resume takes instead of measuring."""
        results = self.history()
        for result in results[self._indexed :]:
            if result.status is Status.OK:
                self._ok[result.metadata.hashes] = result
        self._indexed = len(results)
        return self._ok.get(hashes)

    def launch_folder(self, key: str, launch_id: str) -> Path:
        """The folder of a launch's logs, samples and record, made where it is missing."""
        folder = self.root / layout.launch_folder(key, launch_id)
        durable.make_folder(folder)
        return folder

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

    def _run_of(self, result: Result) -> tuple[Path, records.Run]:
        """The file of the result's run and model, and what it holds already."""
        owner = _owner(result)
        first_choice = self._begun.setdefault(owner, layout.run_file(result))
        paths = (self.root / name for name in layout.alternatives(first_choice))
        runs = ((path, records.read_run(path) if durable.exists(path) else {}) for path in paths)
        return next((path, run) for path, run in runs if all(_owner(stored) == owner for stored in run.values()))


def _owner(result: Result) -> tuple[str, str]:
    return result.metadata.run_id, result.config.model


def _check_replaceable(kind: type[records.Stored], path: Path) -> None:
    """Raise HarnessError where a file is of a newer schema or none of ours: it is never overwritten."""
    if durable.exists(path):
        records.read(kind, path)
