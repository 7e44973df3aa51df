"""The lease: runs on one machine measure one after another, for two that measure at once measure each other.

One lock a kind of device (cpu, cuda), held while a group is measured, whatever the executor; environments and images are made, and
checkpoints fetched, without it. The kernel keeps the lock, so that one of a run that was killed is free at once; the file only
says who has it. Runs in other containers, which see another /tmp, are not seen.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.model import HarnessError

VARIABLE = "HARNESS_LEASES"
"""Environment variable that names another folder for the locks: only runs that share it queue for one another."""

_FOLDER = Path("/tmp")  # not TMPDIR: all users of the machine must mean the same

Note = Callable[[str], None]

Lease = Callable[[str, Note], AbstractContextManager[None]]
"""Holds a kind of device for as long as the context lasts; the note is told of waiting."""


def no_lease(device: str, note: Note) -> AbstractContextManager[None]:  # noqa: ARG001 - a Lease
    """Measure at once, whoever else does."""
    return nullcontext()


@contextmanager
def lease(device: str, note: Note) -> Iterator[None]:
    """Wait until no other run measures on this kind of device, and keep others waiting meanwhile.

    Waiting takes no processor time and is ended by Ctrl-C. Raises HarnessError where the lock cannot be made.
    """
    path = Path(os.environ.get(VARIABLE) or _FOLDER) / f"backend-harness-{device}.lease"
    with _opened(path) as file:
        _lock(file, device, note)
        _write(file, _ourselves())
        try:
            yield
        finally:
            _write(file, b"")


def _lock(file: int, device: str, note: Note) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(
            f"waiting for the {device}: {_holder(file)} is measuring on it; --no-lease measures at once, and disturbs both"
        )
        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = _open(path)
    except OSError as error:
        raise HarnessError(
            f"cannot queue for the device: {path}: {error.strerror}; set {VARIABLE} to a folder that all who measure here can "
            "write, or use --no-lease"
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # and with it the lock


def _open(path: Path) -> int:
    """Never O_CREAT on a file that is there: in /tmp the kernel refuses that for another user's (fs.protected_regular)."""
    for _ in range(2):
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            _make(path)
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW)


def _make(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
    except FileExistsError:  # another run's, just now
        return
    os.fchmod(descriptor, 0o666)  # every user's runs queue; the umask would forbid it
    os.close(descriptor)


def _ourselves() -> bytes:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return json.dumps({"pid": os.getpid(), "command": command, "since": since}).encode()


def _holder(file: int) -> str:
    """As "`harness run quick.yaml` (process 4711, since 2026-11-29 12:03:55+01:00)"; it may not have written that yet."""
    try:
        told: dict[str, Any] = json.loads(os.pread(file, 1 << 16, 0))
        return f"`{told['command']}` (process {told['pid']}, since {told['since']})"
    except (ValueError, KeyError, TypeError):
        return "another run"


def _write(file: int, content: bytes) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, content, 0)
