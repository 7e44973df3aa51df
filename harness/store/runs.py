"""The files of runs, `{key: {schema_version, metadata, measurements, config}}`: written whole when a run ends, so that the cost of
a cell does not grow with the number of cells before it.

Until then a marker beside the file's place tells whose place it is. Its writer holds it locked, and the system lets go of it when
the writer dies: a marker that can be locked is one of a run that was killed, and whoever opens the directory to write next makes up
its file from the history.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import HarnessError, Result
from harness.store import durable, layout, records

Owner = tuple[str, str]
"""(run_id, model): whose file it is."""


def owner_of(result: Result) -> Owner:
    """Whose file a result belongs into."""
    return result.metadata.run_id, result.config.model


@dataclass(frozen=True)
class OpenRun:
    """A run that has results, and no file yet."""

    owner: Owner
    file: Path  # to be
    lock: int  # descriptor of the locked marker

    def finish(self, results: Iterable[Result]) -> None:
        """Write its file, and take the marker away; where that fails, the marker stays for whoever writes next."""
        try:
            if own := {result.key: result for result in results if owner_of(result) == self.owner}:
                durable.replace_file(self.file, records.run_to_text(own))
            with durable.explained(self.file):
                _marker(self.file).unlink(missing_ok=True)
        finally:
            os.close(self.lock)


def begin(root: Path, first: Result) -> OpenRun:
    """Keep a place for the file of a result's run and model. The caller holds the store's lock."""
    file = next(path for path in _places(root, layout.run_file(first)) if not _is_taken(path))
    owner = owner_of(first)
    durable.replace_file(_marker(file), json.dumps(owner))
    with durable.explained(file):
        lock = os.open(_marker(file), os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return OpenRun(owner, file, lock)


def killed(root: Path) -> Iterator[OpenRun]:
    """The runs whose writer is gone. The caller holds the store's lock."""
    for marker in _markers(root):
        with durable.explained(marker):
            lock = os.open(marker, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # its run goes on
                os.close(lock)
                continue
            yield OpenRun(_owner_in(marker), _file_of(marker), lock)


def has_unfinished(root: Path) -> bool:
    """Whether some run in a directory has no file yet: it was killed, or goes on."""
    return any(_markers(root))


def adopt(source: Path, root: Path) -> None:
    """Have the runs of another directory that have no file yet get one here, when somebody opens this one to write next."""
    for marker in _markers(source):
        owner = _owner_in(marker)
        places = _places(root, str(_file_of(marker).relative_to(source)))
        place = next(place for place in places if not _is_taken(place) or _owner_at(place) == owner)
        durable.replace_file(_marker(place), json.dumps(owner))


def read_run(path: Path) -> Mapping[str, Any]:
    """A run's file as JSON has it. Raises HarnessError."""
    with durable.explained(path):
        text = path.read_bytes()
    try:
        content: Mapping[str, Any] = json.loads(text)
    except ValueError:
        raise HarnessError(f"{path} cannot be read as JSON: mend it, or move it away, and run again") from None
    return content


def owner_of_file(path: Path) -> Owner | None:
    """Whose file it is; None of one without results."""
    entries = read_run(path).values()
    return next(((each["metadata"]["run_id"], each["config"]["model"]) for each in entries), None)


_SUFFIX = ".open"


def _markers(root: Path) -> list[Path]:
    return sorted(root.glob(f"*/.*{_SUFFIX}"))


def _marker(file: Path) -> Path:
    """Hidden, so that it is not taken for a result."""
    return file.with_name(f".{file.name}{_SUFFIX}")


def _file_of(marker: Path) -> Path:
    return marker.with_name(marker.name.removeprefix(".").removesuffix(_SUFFIX))


def _owner_in(marker: Path) -> Owner:
    with durable.explained(marker):
        run_id, model = json.loads(marker.read_bytes())
    return run_id, model


def _owner_at(file: Path) -> Owner | None:
    """Of a place that is taken."""
    return owner_of_file(file) if file.exists() else _owner_in(_marker(file))


def _places(root: Path, first_choice: str) -> Iterator[Path]:
    return (root / name for name in layout.alternatives(first_choice))


def _is_taken(file: Path) -> bool:
    return durable.exists(file) or durable.exists(_marker(file))
