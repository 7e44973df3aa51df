"""Limits of control groups, read from folders laid out as the kernel does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness import cgroups

V2 = {"proc/self/cgroup": "0::/jobs/one\n"}
V1 = {"proc/self/cgroup": "5:memory:/jobs/one\n3:cpu,cpuacct:/jobs/one\n1:name=systemd:/\n0::/\n"}


def laid_out(root: Path, *groups: Mapping[str, str]) -> Path:
    for name, text in {name: text for group in groups for name, text in group.items()}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def limits(root: Path) -> tuple[float | None, int | None, int | None]:
    return cgroups.cpu_limit(root), cgroups.memory_limit_bytes(root), cgroups.memory_left_bytes(root)


def test_version_2_is_read(tmp_path: Path) -> None:
    group = {
        "sys/fs/cgroup/jobs/one/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/jobs/one/memory.max": "1000\n",
        "sys/fs/cgroup/jobs/one/memory.current": "700\n",
        "sys/fs/cgroup/jobs/one/memory.stat": "anon 500\ninactive_file 200\nactive_file 1\n",
    }
    assert limits(laid_out(tmp_path, V2, group)) == (1.5, 1000, 500)


def test_memory_beyond_which_a_group_is_slowed_down_is_no_memory_to_measure_in(tmp_path: Path) -> None:
    group = {"sys/fs/cgroup/jobs/one/memory.max": "1000\n", "sys/fs/cgroup/jobs/one/memory.high": "800\n"}
    assert cgroups.memory_limit_bytes(laid_out(tmp_path, V2, group)) == 800


def test_version_1_is_read_and_groups_below_are_counted(tmp_path: Path) -> None:
    group = {
        "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes": "700\n",
        "sys/fs/cgroup/memory/jobs/one/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
    }
    assert limits(laid_out(tmp_path, V1, group)) == (0.5, 1000, 400)


@pytest.mark.parametrize(
    "group",
    [
        {
            **V2,
            "sys/fs/cgroup/jobs/one/cpu.max": "max 100000\n",
            "sys/fs/cgroup/jobs/one/memory.max": "max\n",
            "sys/fs/cgroup/jobs/one/memory.high": "max\n",
            "sys/fs/cgroup/jobs/one/memory.current": "700\n",
        },
        {
            **V1,
            "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes": "700\n",
        },
        V2,
        {},
    ],
    ids=["version 2", "version 1", "no files", "no cgroups"],
)
def test_no_limit_is_none(tmp_path: Path, group: Mapping[str, str]) -> None:
    assert limits(laid_out(tmp_path, group)) == (None, None, None)


def test_the_narrowest_limit_on_the_way_to_the_root_holds(tmp_path: Path) -> None:
    groups = {
        "sys/fs/cgroup/jobs/one/cpu.max": "400000 100000",
        "sys/fs/cgroup/jobs/cpu.max": "200000 100000",
        "sys/fs/cgroup/jobs/one/memory.max": "max",
        "sys/fs/cgroup/jobs/memory.max": "4096",
        "sys/fs/cgroup/jobs/memory.current": "96",
    }
    assert limits(laid_out(tmp_path, V2, groups)) == (2.0, 4096, 4000)


def test_inside_a_container_the_root_of_what_is_visible_is_asked(tmp_path: Path) -> None:
    seen = {"proc/self/cgroup": "0::/docker/0123\n", "sys/fs/cgroup/cpu.max": "100000 100000"}
    assert cgroups.cpu_limit(laid_out(tmp_path, seen)) == 1.0


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    group = {"sys/fs/cgroup/jobs/one/memory.max": "100", "sys/fs/cgroup/jobs/one/memory.current": "130"}
    assert cgroups.memory_left_bytes(laid_out(tmp_path, V2, group)) == 0


def test_a_user_can_limit_what_systemd_has_delegated_and_root_what_the_kernel_has(tmp_path: Path) -> None:
    tree = {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers": "cpu memory pids\n",
    }
    root = laid_out(tmp_path, tree)
    assert cgroups.controllers(1000, root) == {"cpu", "memory", "pids"}
    assert cgroups.controllers(None, root) == {"cpuset", "cpu", "io", "memory", "pids"}


def test_where_systemd_keeps_no_services_of_a_user_what_is_delegated_cannot_be_told(tmp_path: Path) -> None:
    assert cgroups.controllers(1000, tmp_path) is None
