"""Writing so that a kill or a power cut, at any moment, leaves either the old file or the new one, never half of one.

Every function raises HarnessError, one sentence, where the file system refuses.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

import filelock

from harness.model import HarnessError

LOCK_TIMEOUT_S = 60.0
"""Far more than any write takes; only a stopped process holds the lock for longer."""

AT_ONCE_BYTES = 1 << 20
"""Read or copied: of eight times as much, each piece is memory new to the process, which takes five times as long."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_FILE_IN_PLACE = (errno.ENOTDIR, errno.EEXIST)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, each entry on disk when this returns."""
    with explained(folder):
        _make_folder(folder)


def exists(path: Path) -> bool:
    """Whether something is there under this name."""
    with explained(path):
        return path.exists()


def check_writable(folder: Path) -> None:
    """Create the folder where it is missing, and write and remove a file in it."""
    make_folder(folder)
    probe = _temporary_beside(folder / "probe")
    with explained(folder):
        _write_new(probe, b"probe")
        probe.unlink()


def replace_file(path: Path, text: str) -> None:
    """Give the file this text, as UTF-8, in one step: write beside it, fsync, rename, fsync the folder."""
    make_folder(path.parent)
    temporary = _temporary_beside(path)
    with explained(path):
        _write_new(temporary, text.encode())
        temporary.replace(path)
        sync(path.parent)


def append(path: Path, data: bytes) -> None:
    """Add bytes at the end with one write and an fsync; where there is no room for all of them, none stay."""
    make_folder(path.parent)
    is_new = not exists(path)
    with explained(path):
        with path.open("ab", buffering=0) as file:
            _append_whole(file.fileno(), data)
        if is_new:
            sync(path.parent)


def append_ranges(path: Path, first: bytes, ranges: Iterable[tuple[Path, int, int]]) -> None:
    """Add bytes at the end, then parts of other files, (file, from, to), each ended by a newline; as `append`, all or none."""
    make_folder(path.parent)
    with explained(path), path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            file.write(first)
            for source, start, end in ranges:
                _append_range(file, source, start, end)
            os.fsync(file.fileno())
        except BaseException:
            os.ftruncate(file.fileno(), size)
            raise
        sync(path.parent)


def sync_all(path: Path) -> None:
    """Have a file, or a folder with all that is in it, on disk when this returns."""
    with explained(path):
        for each in (*(path.rglob("*") if path.is_dir() else ()), path):
            sync(each)


def sync(path: Path) -> None:
    """Have a file's bytes, or the names in a folder, on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file; the system frees it when its holder dies."""
    with explained(path):
        lock = filelock.FileLock(path, timeout=LOCK_TIMEOUT_S, poll_interval=0.005)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise HarnessError(
                f"{path} has been held by another process for {LOCK_TIMEOUT_S:.0f} s: "
                "end or continue the harness that is writing there, then run the same command again"
            ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says of a path into a sentence with a way out."""
    try:
        yield
    except OSError as error:
        raise HarnessError(_explanation(path, error)) from error


def _explanation(path: Path, error: OSError) -> str:
    seen = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return (
            f"{path} cannot be written, there is no room ({seen}): free some space or choose another folder with "
            "--results, then run the same command again; finished results are kept"
        )
    if error.errno in _FILE_IN_PLACE:
        return f"{path} cannot be written, a file is where a folder should be ({seen}): choose another folder"
    if error.errno in _NOT_WRITABLE:
        return f"{path} cannot be accessed ({seen}): allow this user to read and write it or choose another folder"
    return f"{path} cannot be used ({seen}): mend this or choose another folder"


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def _write_new(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _append_whole(descriptor: int, data: bytes) -> None:
    size = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, data)
        while written < len(data):  # a short write; the next one says why
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _append_range(target: FileIO, source: Path, start: int, end: int) -> None:
    with explained(source), source.open("rb") as file:
        file.seek(start)
        while start < end:
            chunk = file.read(min(end - start, AT_ONCE_BYTES))
            if not chunk:
                raise HarnessError(
                    f"{source} became shorter while it was read: let nobody else write there, and merge again"
                )
            written = memoryview(chunk)
            while written:
                written = written[target.write(written) :]
            start += len(chunk)
    if not chunk.endswith(b"\n"):
        target.write(b"\n")


def _temporary_beside(path: Path) -> Path:
    """A name of its own in the same folder, hidden, so that a rename is enough and a leftover is not taken for a result."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
