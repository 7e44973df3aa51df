"""What the control group of the container around this process tells of its memory: both cgroup versions."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.worker.processes import Reading, descendants

INITS = frozenset({"docker-init", "tini", "catatonit", "podman-init"})
"""What engines start as process 1 of a container that is asked for an init."""

PEAK_FILES = ("memory.peak", "memory.max_usage_in_bytes")
"""Of cgroup version 2 (since Linux 5.19), of version 1."""


def cgroup_peak(root: Path = Path("/")) -> Reading:
    """The peak of all that the container held at a time, over its whole life: it cannot be reset from inside.

    Page cache and tmpfs count: files that were read once make it larger than the processes ever were. Unknown outside a container
    of our own, where the group holds other processes too.
    """
    group = _group(root)
    try:
        members = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    except OSError as error:
        return Reading(None, f"the control group cannot be read: {error}")
    if others := members - {os.getpid()} - descendants(root / "proc") - _init(root):
        return Reading(
            None, f"no container of its own: {len(others)} other processes are in the worker's control group"
        )
    return _peak(group)


def _group(root: Path) -> Path:
    """The folder of this process's group. Inside a container the path that the kernel tells may be seen from its root alone."""
    top, groups = root / "sys/fs/cgroup", _text(root / "proc/self/cgroup")
    version_1 = re.search(r"^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:/(.*)$", groups, re.MULTILINE)
    version_2 = re.search(r"^0::/(.*)$", groups, re.MULTILINE)
    found = version_1 or version_2
    mount = top / "memory" if version_1 else top
    below = mount / found[1] if found else mount
    return below if below.is_dir() else mount


def _peak(group: Path) -> Reading:
    for name in PEAK_FILES:
        if text := _text(group / name):
            return Reading(int(text))
    return Reading(None, f"this kernel keeps no peak in {group}")


def _init(root: Path) -> set[int]:
    """Process 1 where it is no more than an init."""
    return {1} if _text(root / "proc/1/comm").strip() in INITS else set()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
