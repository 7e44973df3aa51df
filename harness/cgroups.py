"""What the control groups around this process allow it, as a container or a batch system sets it: both cgroup versions.

A limit may stand on any level between the process's group and the root; the narrowest holds. Inside a container the path that
the kernel tells may not exist, as the container sees only its own part of the tree: then the part's root is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil

_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as the largest number of whole pages."""

Number = TypeVar("Number", int, float)


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that may be used, as 1.5; None: no limit is set."""
    return _narrowest(_folders(root, "cpu"), _cpu_limit)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Memory that may be used; None: no limit is set."""
    return _narrowest(_folders(root, "memory"), _memory_limit)


def memory_available_bytes(root: Path = Path("/")) -> int:
    """Memory that may still be taken: what the machine has left, or the control group where that is less."""
    available: int = psutil.virtual_memory().available
    left = memory_left_bytes(root)
    return available if left is None else min(available, left)


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """Memory that may still be taken, counting page cache that the kernel would give back; None: no limit is set."""
    return _narrowest(_folders(root, "memory"), _memory_left)


def controllers(user: int | None = None, root: Path = Path("/")) -> frozenset[str] | None:
    """Of version 2: what groups may be limited in, as "memory" and "cpuset". None: it cannot be told, as in version 1.

    By a user only in what systemd delegates to the user's own services.
    """
    below = "" if user is None else f"user.slice/user-{user}.slice/user@{user}.service"
    names = _text(root / "sys/fs/cgroup" / below / "cgroup.controllers")
    return None if names is None else frozenset(names.split())


def _narrowest(folders: Iterator[Path], read: Callable[[Path], Number | None]) -> Number | None:
    limits = (read(folder) for folder in folders)
    return min((limit for limit in limits if limit is not None), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The group's folder and those above it."""
    top, below = _place(root, controller)
    folder = top / below
    for each in (folder, *folder.parents):
        if each.is_dir():
            yield each
        if each == top:
            return


def _place(root: Path, controller: str) -> tuple[Path, str]:
    """Where a controller's tree is mounted, and the group's path in it. Its own tree is version 1, the common one version 2."""
    top = root / "sys/fs/cgroup"
    groups = _text(root / "proc/self/cgroup") or ""
    for _, controllers, path in re.findall(r"^(\d+):([^:]*):/(.*)$", groups, re.MULTILINE):
        if controller in controllers.split(","):
            return top / controller, path
    common = re.search(r"^0::/(.*)$", groups, re.MULTILINE)
    return top, common[1] if common else ""


def _cpu_limit(folder: Path) -> float | None:
    """Microseconds of a period: version 2 has `150000 100000` in one file, version 1 a number in each of two."""
    both = _text(folder / "cpu.max") or f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}"
    quota, period = both.split()
    return None if quota in ("None", "max", "-1") else int(quota) / int(period)


def _memory_limit(folder: Path) -> int | None:
    """Version 2 has two: beyond `memory.high` nothing is killed, but all are held up while the kernel takes memory back."""
    limits = (_text(folder / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes"))
    set_bytes = [int(text) for text in limits if text not in (None, "max")]
    return min((limit for limit in set_bytes if limit < _UNLIMITED_BYTES), default=None)


def _memory_left(folder: Path) -> int | None:
    limit = _memory_limit(folder)
    used = _text(folder / "memory.current") or _text(folder / "memory.usage_in_bytes")
    if limit is None or used is None:
        return limit
    return max(limit - int(used) + _cached(_text(folder / "memory.stat") or ""), 0)


def _cached(statistics: str) -> int:
    """Page cache, in bytes, that goes first. Version 1 counts the groups below under a name of its own."""
    counted = dict(re.findall(r"^((?:total_)?inactive_file) (\d+)$", statistics, re.MULTILINE))
    return int(counted.get("total_inactive_file") or counted.get("inactive_file") or 0)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
