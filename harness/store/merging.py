"""Several results directories made one: the shards of a sweep, or the results of several machines.

The history of the one gets every line that it lacks; results of different hosts stay apart by their `host_hash`, as everywhere.
Files that nobody rewrites (launches, blocks, imported results) are copied where they are missing, files of runs too, and `latest/`
where it is older. The parts that lines share are added by name. The history comes last, so a merge that was killed is finished by
the same command.
"""

from __future__ import annotations

import filecmp
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from harness.model import HarnessError, Result
from harness.store import durable, layout, records, runs
from harness.store.copies import Copies
from harness.store.heads import Head, Heads, Line
from harness.store.journal import TORN
from harness.store.local import moment
from harness.store.parts import Parts


@dataclass(frozen=True)
class Merged:
    """What a merge has done."""

    added: int  # results
    present: int  # that were there already, equal to the byte
    left_out: tuple[str, ...]  # of a run and key that are there with another content: a sentence each
    repeated: tuple[str, ...]  # ok under the same four hashes in two directories, both kept: a sentence each
    hosts: tuple[str, ...]  # host_hash of each machine, those of the results that were there among them
    torn: tuple[str, ...]  # lines that a kill has cut short, left where they are: a sentence each


def merge(sources: Sequence[Path], into: Path) -> Merged:
    """Add the results of directories to one, which is made where it is missing.

    Nothing is written unless all of them can be read. Raises HarnessError where one is no results directory, is damaged, or is of
    a newer harness.
    """
    for source in sources:
        _check_source(source, into)
    durable.check_writable(into)
    with durable.locked(into / layout.LOCK):
        plan = _Plan(into)
        for source in sources:
            plan.add(source)
        for source in sources:  # one after the other: they may have files of one name
            _copy_files(source, into)
        plan.append()
    return plan.merged()


def _check_source(source: Path, into: Path) -> None:
    if not any(durable.exists(source / name) for name in (layout.HISTORY, layout.IMPORTED)):
        raise HarnessError(f"{source} holds no {layout.HISTORY}: give folders that `harness run --results` wrote to")
    if durable.exists(into) and source.samefile(into):
        raise HarnessError(f"{source} cannot be merged into itself: leave it out, its results stay in --into")


# --- the history ----------------------------------------------------------------------------------------------------


@dataclass
class _Plan:
    """Which lines of which histories are to be added."""

    into: Path
    _ranges: list[tuple[Path, int, int]] = field(default_factory=list)  # (history, from, to), in bytes
    _known: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # (run, key) -> (hash, directory)
    _ok: dict[Hashable, int] = field(default_factory=dict)  # hashes -> directory, of ok results
    _folders: list[Path] = field(default_factory=list)
    _hosts: dict[str, None] = field(default_factory=dict)
    _added: int = 0
    _present: int = 0
    _left_out: list[str] = field(default_factory=list)
    _repeated: list[str] = field(default_factory=list)
    _torn: list[str] = field(default_factory=list)
    _ending: bytes = b""  # what must come before the first new line
    _parts: Parts = field(init=False)  # those that are there
    _new_parts: dict[str, bytes] = field(default_factory=dict)  # those of the directories: lines by name

    def __post_init__(self) -> None:
        self._folders.append(self.into)
        heads = Heads(self.into)
        self._parts = heads.parts
        last: Line | None = None
        for last in heads.lines():
            if last.head:
                self._note(last.head, last.text)
        if last and not last.text.endswith(b"\n"):
            self._ending = b"\n" if last.head else TORN

    def add(self, folder: Path) -> None:
        """Look through a directory's history. Raises HarnessError naming file and line."""
        self._folders.append(folder)
        heads = Heads(folder)
        for line in heads.lines():
            if line.head is None:
                self._torn.append(f"{heads.path}, line {line.number}: its writer was killed at it; it is not merged")
            elif self._is_new(line.head, line.text):
                self._note(line.head, line.text)
                self._take(heads.path, line)
        self._new_parts |= heads.parts.all

    def append(self) -> None:
        """Write the new lines, and before them the parts that they name. The caller holds the store's lock."""
        if self._ranges:
            self._parts.add(self._new_parts)
            durable.append_ranges(self.into / layout.HISTORY, self._ending, self._ranges)

    def merged(self) -> Merged:
        return Merged(
            self._added,
            self._present,
            tuple(self._left_out),
            tuple(self._repeated),
            tuple(self._hosts),
            tuple(self._torn),
        )

    def _is_new(self, head: Head, text: bytes) -> bool:
        known = self._known.get((head.run_id, head.key))
        if known is None:
            return True
        if known[0] == _hash(text):
            self._present += 1
        else:
            self._left_out.append(
                f"{head.key[:12]} of run {head.run_id} differs between {self._folders[known[1]]}, which is kept, and "
                f"{self._folders[-1]}, which is left out"
            )
        return False

    def _note(self, head: Head, text: bytes) -> None:
        here = len(self._folders) - 1
        self._known[head.run_id, head.key] = _hash(text), here
        self._hosts[head.host_hash] = None
        if head.is_ok and (first := self._ok.setdefault(head.hashes, here)) != here:
            self._repeated.append(
                f"{head.key[:12]} was measured in {self._folders[first]} and in {self._folders[here]}, with the same protocol, "
                "stack and host: both are kept, and the newer one counts"
            )

    def _take(self, history: Path, line: Line) -> None:
        """Lines that follow one another are one range."""
        self._added += 1
        end = line.start + len(line.text)
        if self._ranges and self._ranges[-1][0] is history and self._ranges[-1][2] == line.start:
            self._ranges[-1] = (history, self._ranges[-1][1], end)
        else:
            self._ranges.append((history, line.start, end))


def _hash(text: bytes) -> int:
    """Of a line, with or without its newline."""
    return hash(text if text.endswith(b"\n") else text + b"\n")


# --- the files beside it --------------------------------------------------------------------------------------------


def _copy_files(source: Path, into: Path) -> None:
    with Copies() as copies:
        for path in _wanted(source, into):
            copies.add(path, into / path.relative_to(source))
        for path in source.glob("*/[!.]*_benchmark_*.json"):
            if place := _place_of_run(path, source, into):
                copies.add(path, place)
        copies.commit()
    runs.adopt(source, into)


def _wanted(source: Path, into: Path) -> Iterator[Path]:
    """The files and folders that are copied under their own names."""
    for launch in source.glob(f"{layout.LAUNCHES}/*/*/{layout.LAUNCH}"):  # the last file of its folder to be written
        if not (into / launch.relative_to(source)).exists():
            yield launch.parent
    for path in source.glob(f"{layout.BLOCKS}/*/[!.]*"):
        place = into / path.relative_to(source)
        if not place.exists() or place.stat().st_size < path.stat().st_size:  # it grew while its block ran
            yield path
    for path in source.glob(f"{layout.IMPORTED}/[!.]*.json"):
        if not (into / path.relative_to(source)).exists():
            yield path
    for path in source.glob(f"{layout.LATEST}/**/[!.]*.json"):
        place = into / path.relative_to(source)
        if not place.exists() or _measured_at(place) < _measured_at(path):
            yield path


def _measured_at(path: Path) -> datetime:
    return moment(records.read(Result, path).metadata.timestamp)


def _place_of_run(path: Path, source: Path, into: Path) -> Path | None:
    """Its own name or the next that is free; its own place where it has grown since; None where it is there."""
    places = (into / name for name in layout.alternatives(str(path.relative_to(source))))
    place = next(place for place in places if not place.exists() or _is_of_one_run(path, place))
    return place if not place.exists() or len(runs.read_run(path)) > len(runs.read_run(place)) else None


def _is_of_one_run(path: Path, place: Path) -> bool:
    return filecmp.cmp(path, place, shallow=False) or runs.owner_of_file(path) == runs.owner_of_file(place)
