"""The peak of a container's control group, on made-up trees of both versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.worker.container import cgroup_peak
from harness.worker.processes import Reading

VERSION_1 = "4:cpu,cpuacct:/docker/c0ffee\n3:memory:/docker/c0ffee\n0::/\n"
VERSION_2 = "0::/user.slice/c0ffee\n"
SEEN_FROM_INSIDE = "0::/\n"


def tree(root: Path, groups: str, group: str, members: str, **files: str) -> Path:
    """A /proc and a /sys in which this process is in a group. Members: `self`, `init` and `other`."""
    pids = {"self": str(os.getpid()), "init": "1", "other": "77"}
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text("\n".join(pids[name] for name in members.split()))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/1").mkdir()
    (root / "proc/1/comm").write_text("docker-init\n")
    (root / "proc/1/stat").write_text("1 (docker-init) S 0 1 1")
    return root


@pytest.mark.parametrize(
    ("groups", "group", "file"),
    [
        (VERSION_1, "memory/docker/c0ffee", "memory__max_usage_in_bytes"),
        (VERSION_1, "memory", "memory__max_usage_in_bytes"),  # a container sees its own part of the tree as the whole
        (VERSION_2, "user.slice/c0ffee", "memory__peak"),
        (SEEN_FROM_INSIDE, "", "memory__peak"),
    ],
)
def test_the_peak_of_a_container_of_our_own_is_read_in_both_versions(
    tmp_path: Path, groups: str, group: str, file: str
) -> None:
    assert cgroup_peak(tree(tmp_path, groups, group, "self init", **{file: "4096\n"})) == Reading(4096)


def test_a_group_with_other_processes_is_no_container_of_our_own(tmp_path: Path) -> None:
    root = tree(tmp_path, VERSION_2, "user.slice/c0ffee", "self other", memory__peak="4096")
    assert cgroup_peak(root).bytes is None
    assert cgroup_peak(root).reason == "no container of its own: 1 other processes are in the worker's control group"


def test_a_first_process_that_is_more_than_an_init_makes_the_container_somebody_elses(tmp_path: Path) -> None:
    root = tree(tmp_path, VERSION_2, "user.slice/c0ffee", "self init", memory__peak="4096")
    (root / "proc/1/comm").write_text("harness\n")
    assert cgroup_peak(root).bytes is None


def test_a_kernel_without_the_file_and_a_system_without_groups_are_told(tmp_path: Path) -> None:
    root = tree(tmp_path, VERSION_2, "user.slice/c0ffee", "self init")
    assert cgroup_peak(root).reason == f"this kernel keeps no peak in {root / 'sys/fs/cgroup/user.slice/c0ffee'}"
    assert str(cgroup_peak(tmp_path / "nothing").reason).startswith("the control group cannot be read")


def test_here_among_other_processes_there_is_a_reason() -> None:
    """Asked by a child, which has at least us beside it: systemd gives a command's processes a group of their own."""
    code = "from harness.worker.container import cgroup_peak; told = cgroup_peak(); print(told.bytes, told.reason)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert re.match(r"None \w+", told)
