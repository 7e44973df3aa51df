"""Where the harness keeps what is dear to make: checkpoints, inputs, environments, references.

One folder of the user (`HARNESS_CACHE` overrides it) with one room per kind of thing. An *entry* of a room is a folder

    {place}/content/        what was made, read-only
    {place}/manifest.json   names, sizes and SHA-256 of its files, and facts that its maker wants back

It is made once: aside, under a lock, and renamed into place when it is whole, so an interrupted making is never taken for an
entry. When it is found again, names, sizes and times of its files are compared with the manifest, which costs no reading; a
file whose time has changed is hashed. What is not as it was made is made anew, and the user is told.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from harness.model import HarnessError, Record, digest

VARIABLE = "HARNESS_CACHE"
"""Environment variable that names another folder."""

Progress = Callable[[str], None]
"""Told one short line at a time."""

Make = Callable[[Path], Mapping[str, Any]]
"""Fills an empty folder and returns the facts to be kept with it (JSON values)."""


@dataclass(frozen=True)
class Entry:
    """Something kept, whole and read-only."""

    folder: Path  # its content
    sha256: str  # of the content: names and bytes
    facts: Mapping[str, Any]  # as its maker returned them


class _File(Record):
    size_bytes: int
    mtime_ns: int
    sha256: str


class _Manifest(Record):
    schema_version: int = Field(1, ge=1, le=1)  # history: 1, the first (2026-11)
    sha256: str
    files: dict[str, _File]
    facts: dict[str, Any]


# --- places ---------------------------------------------------------------------------------------------------------


def home() -> Path:
    """The cache's folder, absolute; it need not exist yet."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("backend-harness")


def room(name: str) -> Path:
    """The folder of one kind of thing, as `checkpoints`, `environments`, `wheelhouse`; it need not exist yet."""
    return home() / name


def safe_name(text: str) -> str:
    """A file name for any text: what can be read of it, then enough of its digest to be nobody else's."""
    readable = re.sub(r"[^A-Za-z0-9.=_]+", "-", text).strip("-.")[:60]
    return f"{readable or 'entry'}-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}"


# --- entries --------------------------------------------------------------------------------------------------------


def keep(place: Path, make: Make, progress: Progress) -> Entry:
    """The entry at `place`, found whole or made now.

    `make` is given an empty folder beside the final one. Two processes that want one entry wait for each other.
    Raises HarnessError where the disk is full or refuses; whatever else `make` raises passes through, and leaves nothing.
    """
    found = _find(place)
    if found is not None:
        return found
    with explained(f"keep {place.name} in {place.parent}"):
        place.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"waiting for another harness that is making {place.name}"
        with alone(place.with_name(f"{place.name}.lock"), lambda: progress(waiting)):
            return _find(place) or _make(place, make, progress)


def remove(folder: Path) -> None:
    """Delete a folder, read-only or not; one that is not there is no error."""
    if not folder.exists():
        return
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what the disk refuses into a HarnessError that says how to go on; it begins "cannot {doing}"."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error} ({error.filename})" if error.filename else f"{error.strerror or error}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = f"free some space, or set {VARIABLE}" if full else f"mend that, or set {VARIABLE}"
        raise HarnessError(f"cannot {doing}: {reason}; {advice} to a folder elsewhere") from error


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_sha256(files: Mapping[str, str]) -> str:
    """SHA-256 (hex) of a folder's content, from the SHA-256 of each file by its name inside the folder."""
    return digest(files)


def _find(place: Path) -> Entry | None:
    try:
        manifest = _Manifest.model_validate_json((place / "manifest.json").read_bytes())
        if not _is_as_made(place / "content", manifest):
            return None
    except (OSError, ValidationError):
        return None
    return Entry(place / "content", manifest.sha256, manifest.facts)


def _is_as_made(content: Path, manifest: _Manifest) -> bool:
    present = {str(path.relative_to(content)): path for path in _files(content)}
    return present.keys() == manifest.files.keys() and all(
        _is_same_file(path, manifest.files[name]) for name, path in present.items()
    )


def _is_same_file(path: Path, file: _File) -> bool:
    status = path.stat()
    if status.st_size != file.size_bytes:
        return False
    return status.st_mtime_ns == file.mtime_ns or sha256_of(path) == file.sha256


def _make(place: Path, make: Make, progress: Progress) -> Entry:
    if place.exists():
        progress(f"{place.name} is not as it was made: making it anew")
    aside = place.with_name(f"{place.name}.making")
    try:
        remove(aside)
        (aside / "content").mkdir(parents=True)
        facts = make(aside / "content")
        manifest = _describe(aside / "content", facts)
        (aside / "manifest.json").write_text(manifest.model_dump_json(indent=1))
        _make_read_only(aside / "content")
        remove(place)
        aside.rename(place)
    finally:
        remove(aside)
    return Entry(place / "content", manifest.sha256, manifest.facts)


def _describe(content: Path, facts: Mapping[str, Any]) -> _Manifest:
    files = {str(path.relative_to(content)): _describe_file(path) for path in _files(content)}
    sha256 = folder_sha256({name: file.sha256 for name, file in files.items()})
    return _Manifest(sha256=sha256, files=files, facts=dict(facts))


def _describe_file(path: Path) -> _File:
    status = path.stat()
    return _File(size_bytes=status.st_size, mtime_ns=status.st_mtime_ns, sha256=sha256_of(path))


def _make_read_only(content: Path) -> None:
    for path in _files(content):
        if path.stat().st_nlink == 1:  # a hard link shares its mode with the user's own file
            path.chmod(0o444)
    for folder in (*(path for path in content.rglob("*") if path.is_dir()), content):
        folder.chmod(0o555)


def _files(content: Path) -> list[Path]:
    return sorted(path for path in content.rglob("*") if path.is_file())


@contextmanager
def alone(lock_file: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock that one process has at a time; `on_wait` is called once where another has it."""
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
